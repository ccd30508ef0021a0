package main

import (
	"hash/fnv"
	"slices"
	"sort"

	"github.com/anishathalye/porcupine"
)

// The models of Porcupine's own tests (porcupine_test.go, MIT licence), the first with a key to partition by.

type registerInput struct {
	get   bool
	value int
	key   int
}

var registerModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		m := make(map[int][]porcupine.Operation)
		for _, v := range history {
			key := v.Input.(registerInput).key
			m[key] = append(m[key], v)
		}
		keys := make([]int, 0, len(m))
		for k := range m {
			keys = append(keys, k)
		}
		sort.Ints(keys)
		ret := make([][]porcupine.Operation, 0, len(keys))
		for _, k := range keys {
			ret = append(ret, m[k])
		}
		return ret
	},
	Init: func() interface{} { return 0 },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		in := input.(registerInput)
		if !in.get {
			return true, in.value
		}
		return output == state, state
	},
	Hash: func(state interface{}) uint64 { return uint64(state.(int)) },
}

func registerOperations(history columns) []porcupine.Operation {
	return operations(history, func(i int) (interface{}, interface{}) {
		if history.f[i] == 0 {
			return registerInput{get: true, key: int(history.key[i])}, int(history.out[i])
		}
		return registerInput{value: int(history.arg[i]), key: int(history.key[i])}, 0
	})
}

type etcdInput struct {
	op         uint8 // 0 read, 1 write, 2 cas
	arg1, arg2 int
}

type etcdOutput struct {
	ok, exists, unknown bool
	value               int
}

const nothing = -1000000

var etcdModel = porcupine.Model{
	Init: func() interface{} { return nothing },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		st := state.(int)
		inp := input.(etcdInput)
		out := output.(etcdOutput)
		switch inp.op {
		case 0:
			return !out.exists && st == nothing || out.exists && st == out.value || out.unknown, state
		case 1:
			return true, inp.arg1
		}
		ok := inp.arg1 == st && out.ok || inp.arg1 != st && !out.ok || out.unknown
		result := st
		if inp.arg1 == st {
			result = inp.arg2
		}
		return ok, result
	},
}

func etcdOperations(history columns) []porcupine.Operation {
	return operations(history, func(i int) (interface{}, interface{}) {
		unknown := history.ret[i] == never
		switch history.f[i] {
		case 0:
			exists := history.out[i] != none
			return etcdInput{}, etcdOutput{exists: exists, value: int(history.out[i]), unknown: unknown}
		case 1:
			return etcdInput{op: 1, arg1: int(history.arg[i])}, etcdOutput{unknown: unknown}
		case 2:
			return etcdInput{op: 2, arg1: int(history.arg[i]), arg2: int(history.out[i])}, etcdOutput{ok: true, unknown: unknown}
		}
		return etcdInput{op: 2, arg1: int(history.arg[i])}, etcdOutput{}
	})
}

type kvInput struct {
	op    uint8 // 0 get, 1 put, 2 append
	key   int
	value string
}

var kvModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		m := make(map[int][]porcupine.Operation)
		for _, v := range history {
			key := v.Input.(kvInput).key
			m[key] = append(m[key], v)
		}
		var ret [][]porcupine.Operation
		for _, v := range m {
			ret = append(ret, v)
		}
		return ret
	},
	Init: func() interface{} { return "" },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		inp := input.(kvInput)
		st := state.(string)
		switch inp.op {
		case 0:
			return output.(string) == st, state
		case 1:
			return true, inp.value
		}
		return true, st + inp.value
	},
	Hash: func(state interface{}) uint64 {
		h := fnv.New64a()
		h.Write([]byte(state.(string)))
		return h.Sum64()
	},
}

func kvOperations(history columns) []porcupine.Operation {
	word := func(place int64) string {
		if place == none {
			return ""
		}
		return history.words[place]
	}
	return operations(history, func(i int) (interface{}, interface{}) {
		op := map[byte]uint8{0: 0, 1: 1, 11: 2}[history.f[i]]
		return kvInput{op: op, key: int(history.key[i]), value: word(history.arg[i])}, word(history.out[i])
	})
}

// A FIFO queue, which Porcupine's tests have none of, as its README would have it written: states are slices.
type queueInput struct {
	put   bool
	value int64
}

var queueModel = porcupine.Model{
	Init: func() interface{} { return []int64{} },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		inp := input.(queueInput)
		st := state.([]int64)
		if inp.put {
			return true, append(append(make([]int64, 0, len(st)+1), st...), inp.value)
		}
		if out := output.(int64); len(st) == 0 || st[0] != out {
			return len(st) == 0 && out == none, st
		}
		return true, st[1:]
	},
	Equal: func(state1, state2 interface{}) bool { return slices.Equal(state1.([]int64), state2.([]int64)) },
}

func queueOperations(history columns) []porcupine.Operation {
	return operations(history, func(i int) (interface{}, interface{}) {
		return queueInput{put: history.f[i] == 3, value: history.arg[i]}, history.out[i]
	})
}

func operations(history columns, of func(i int) (interface{}, interface{})) []porcupine.Operation {
	made := make([]porcupine.Operation, len(history.f))
	for i := range made {
		made[i].Input, made[i].Output = of(i)
		made[i].Call, made[i].Return = history.call[i], history.ret[i]
	}
	return made
}
