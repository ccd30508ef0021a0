// The worker: reads histories from standard input, one after another, and answers on standard output. It ends when
// its input does, also in the middle of a search.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"time"

	"splitbrain/porcupine/models"
	"splitbrain/porcupine/search"
)

// Collecting half as often as Go would by itself: most of what a search makes, it keeps.
const collect = 200

// What may be kept from one search to the next, in bytes.
const keep = 256 << 20

func main() {
	signal.Ignore(os.Interrupt) // who started us decides; a terminal's Ctrl-C reaches us too
	// Where memory ends, we are the one to go, not who started us. (Linux; elsewhere there is no such file.)
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	debug.SetGCPercent(collect)

	requests := make(chan [][]byte)
	go func() {
		input := bufio.NewReaderSize(os.Stdin, 1<<20)
		for {
			request, err := readMessage(input)
			if err == io.EOF {
				os.Exit(0)
			} else if err != nil {
				fmt.Fprintln(os.Stderr, "reading a request:", err)
				os.Exit(2)
			}
			requests <- request
		}
	}()
	for request := range requests {
		if err := writeMessage(os.Stdout, answer(request)...); err != nil {
			os.Exit(0)
		}
		if search.InUse() > keep {
			request = nil
			debug.FreeOSMemory()
		}
	}
}

// The blocks of a request, in order.
const (
	kind = iota // "decide", "search" or "visualise"
	name
	parameters // of the model: int64
	offsets    // of the model's table: where each cell ends
	table
	limits // nanoseconds, bytes
	f      // int8
	arg
	out
	call
	ret
	key
	process
	channel // empty: none
	notes   // JSON
	blocks
)

func answer(request [][]byte) [][]byte {
	reply := func(verdict search.Verdict, why string, counts []int64, rest ...[]byte) [][]byte {
		return append([][]byte{[]byte(verdict), []byte(why), packed(counts)}, rest...)
	}
	if len(request) != blocks {
		return reply("error", fmt.Sprintf("a request of %d blocks, not %d", len(request), blocks), nil)
	}
	model, err := models.New(string(request[name]), models.Parameters{
		Numbers: numbers(request[parameters]), Table: cells(numbers(request[offsets]), request[table]),
	})
	if err != nil {
		return reply("error", err.Error(), nil)
	}
	bounds := numbers(request[limits])
	limit := search.Limits{Time: time.Duration(bounds[0]), Memory: bounds[1]}
	history := search.History{
		F: request[f], Arg: numbers(request[arg]), Out: numbers(request[out]), Call: numbers(request[call]),
		Ret: numbers(request[ret]), Key: numbers(request[key]), Process: numbers(request[process]),
		Chan: numbers(request[channel]),
	}
	if asked := string(request[kind]); asked != "visualise" {
		for i := f; i < blocks; i++ {
			request[i] = nil
		}
		found := search.Run(model, history, limit, asked == "search")
		longest := make([]int64, len(found.Longest))
		for i, row := range found.Longest {
			longest[i] = int64(row)
		}
		counts := []int64{int64(found.Keys), int64(found.Decided), int64(found.Stuck)}
		return reply(found.Verdict, found.Why, counts, packed(longest))
	}
	var annotations []search.Annotation
	if err := json.Unmarshal(request[notes], &annotations); err != nil {
		return reply("error", err.Error(), nil)
	}
	verdict, why, page, err := search.Visualise(model, history, limit, annotations)
	if err != nil {
		return reply("error", err.Error(), nil)
	}
	return reply(verdict, why, nil, page)
}

func cells(ends []int64, bytes []byte) [][]byte {
	table := make([][]byte, len(ends))
	start := int64(0)
	for i, end := range ends {
		table[i] = bytes[start:end]
		start = end
	}
	return table
}
