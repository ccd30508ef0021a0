package main

import (
	"encoding/binary"
	"fmt"
	"io"
)

// A message is a number of blocks: uint64 count, then for each its length as uint64, then the blocks' bytes. All
// numbers are little-endian; columns are int64. So is worker.py's side of it.

const manyBlocks = 64

func readMessage(from io.Reader) ([][]byte, error) {
	var count [8]byte
	if _, err := io.ReadFull(from, count[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(count[:])
	if n > manyBlocks {
		return nil, fmt.Errorf("a message of %d blocks", n)
	}
	header := make([]byte, 8*n)
	if _, err := io.ReadFull(from, header); err != nil {
		return nil, err
	}
	blocks := make([][]byte, n)
	for i, length := range numbers(header) {
		blocks[i] = make([]byte, length)
		if _, err := io.ReadFull(from, blocks[i]); err != nil {
			return nil, err
		}
	}
	return blocks, nil
}

func writeMessage(to io.Writer, blocks ...[]byte) error {
	head := []int64{int64(len(blocks))}
	for _, block := range blocks {
		head = append(head, int64(len(block)))
	}
	for _, part := range append([][]byte{packed(head)}, blocks...) {
		if _, err := to.Write(part); err != nil {
			return err
		}
	}
	return nil
}

func numbers(block []byte) []int64 {
	column := make([]int64, len(block)/8)
	for i := range column {
		column[i] = int64(binary.LittleEndian.Uint64(block[8*i:]))
	}
	return column
}

func packed(column []int64) []byte {
	block := make([]byte, 8*len(column))
	for i, number := range column {
		binary.LittleEndian.PutUint64(block[8*i:], uint64(number))
	}
	return block
}
