// Porcupine as its own users run it, for comparison: its published API, the models of its own tests, no worker, nothing
// of ours but the reading of the request (the worker's, on standard input). Prints the seconds of each repetition.
//
//	bench register|etcd|kv|queue REPETITIONS < REQUEST
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/anishathalye/porcupine"
)

const none, never = -1 << 63, 1<<63 - 1

// Columns of one history, as the worker's wire.go and main.go have them.
type columns struct {
	f                        []byte
	arg, out, call, ret, key []int64
	words                    []string
}

func main() {
	repetitions, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	bytes, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	var histories []columns
	for len(bytes) > 0 {
		var history columns
		history, bytes = next(bytes)
		histories = append(histories, history)
	}
	model, prepare := registerModel, registerOperations
	switch os.Args[1] {
	case "etcd":
		model, prepare = etcdModel, etcdOperations
	case "kv":
		model, prepare = kvModel, kvOperations
	case "queue":
		model, prepare = queueModel, queueOperations
	}
	var all [][]porcupine.Operation
	for _, history := range histories {
		all = append(all, prepare(history))
	}
	for ; repetitions > 0; repetitions-- {
		begun := time.Now()
		legal := 0
		for _, operations := range all {
			if porcupine.CheckOperations(model, operations) {
				legal++
			}
		}
		fmt.Println(time.Since(begun).Seconds(), legal)
	}
}

func next(bytes []byte) (columns, []byte) {
	number := func(place uint64) uint64 { return binary.LittleEndian.Uint64(bytes[8*place:]) }
	n := number(0)
	at := 8 * (n + 1)
	blocks := make([][]byte, n)
	for i := range blocks {
		length := number(uint64(i) + 1)
		blocks[i] = bytes[at : at+length]
		at += length
	}
	ints := func(block []byte) []int64 {
		made := make([]int64, len(block)/8)
		for i := range made {
			made[i] = int64(binary.LittleEndian.Uint64(block[8*i:]))
		}
		return made
	}
	history := columns{
		f: blocks[6], arg: ints(blocks[7]), out: ints(blocks[8]), call: ints(blocks[9]), ret: ints(blocks[10]),
		key: ints(blocks[11]),
	}
	start := int64(0)
	for _, end := range ints(blocks[3]) {
		history.words = append(history.words, string(blocks[4][start:end]))
		start = end
	}
	return history, bytes[at:]
}
