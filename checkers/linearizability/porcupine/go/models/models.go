// Package models has the objects that a search can decide. One file an object; a file of your own registers another.
package models

import (
	"encoding/binary"
	"fmt"

	"splitbrain/porcupine/search"
)

// Parameters of a model, as checkers/linearizability/porcupine/models.py gives them.
type Parameters struct {
	Numbers []int64
	// Table is what Arg or Out stand for where a number does not say it all: words, lists, transactions.
	Table [][]byte
}

// Number is a parameter by its place, or a default where there are fewer.
func (p Parameters) Number(place int, otherwise int64) int64 {
	if place < len(p.Numbers) {
		return p.Numbers[place]
	}
	return otherwise
}

// Lists reads the table as lists of numbers.
func (p Parameters) Lists() [][]int64 {
	lists := make([][]int64, len(p.Table))
	for i, cell := range p.Table {
		lists[i] = make([]int64, len(cell)/8)
		for j := range lists[i] {
			lists[i][j] = int64(binary.LittleEndian.Uint64(cell[8*j:]))
		}
	}
	return lists
}

var registered = map[string]func(Parameters) search.Model{}

// Register makes a model known by name; for a file's func init.
func Register(name string, make func(Parameters) search.Model) {
	registered[name] = make
}

// New is the model of that name.
func New(name string, parameters Parameters) (search.Model, error) {
	make, there := registered[name]
	if !there {
		return nil, fmt.Errorf("no model %q", name)
	}
	return make(parameters), nil
}

func equal[S comparable](a, b S) bool { return a == b }
