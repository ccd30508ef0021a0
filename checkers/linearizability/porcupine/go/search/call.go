// Package search runs Porcupine over operations given as columns, within time and memory, and remembers how far it got.
package search

import (
	"fmt"
	"math"
)

// None stands for "nothing" in Arg and Out; Never is the return of an operation that is not known to have ended.
const (
	None  int64 = math.MinInt64
	Never int64 = math.MaxInt64
)

// F is what an operation does. The numbers are those of checkers/linearizability/calls.py, which says what Arg and Out
// mean for each.
type F int8

const (
	Read F = iota
	Write
	Cas
	Put
	Take
	Acquire
	Try
	Release
	Add
	Remove
	Contains
	Append
	Fetch
	CasRefused
	Txn
)

// Call is one operation. Unknown: it is not known whether it took effect, and Out means nothing (but for a Cas). A model
// may then answer as if it had taken effect; where it cannot, it did not.
type Call struct {
	F        F
	Unknown  bool
	Row      int32 // in the columns, from 0
	channel  int32 // which ordered channel of its key, or -1
	position int32 // in that channel
	floor    int32 // position of the nearest operation before it there that is known to have taken effect, or -1
	Arg      int64
	Out      int64
	Process  int64
}

// String is how messages and the visualisation show the operation, where a model has no words of its own.
func (c *Call) String() string {
	answer := func(nothing string) string {
		if c.Unknown {
			return "?"
		}
		return Number(c.Out, nothing)
	}
	switch c.F {
	case Read:
		return "read -> " + answer("nil")
	case Write:
		return fmt.Sprintf("write %d", c.Arg) + c.doubt()
	case Cas:
		return fmt.Sprintf("cas %d -> %d", c.Arg, c.Out) + c.doubt()
	case CasRefused:
		return fmt.Sprintf("cas from %d, refused", c.Arg)
	case Put:
		return fmt.Sprintf("put %d", c.Arg) + c.doubt()
	case Take:
		return "take -> " + answer("empty")
	case Acquire:
		if c.Out == None {
			return fmt.Sprintf("acquire by %d", c.Process) + c.doubt()
		}
		return fmt.Sprintf("acquire by %d -> token %d", c.Process, c.Out)
	case Try:
		return fmt.Sprintf("acquire by %d, refused", c.Process)
	case Release:
		return fmt.Sprintf("release by %d", c.Process) + c.doubt()
	case Add:
		return fmt.Sprintf("add %d", c.Arg) + c.doubt()
	case Remove:
		return fmt.Sprintf("remove %d", c.Arg) + c.doubt()
	case Contains:
		return fmt.Sprintf("contains %d -> %s", c.Arg, map[int64]string{0: "no", 1: "yes"}[c.Out])
	case Append:
		return fmt.Sprintf("append %d -> offset %s", c.Arg, answer("?"))
	case Fetch:
		return fmt.Sprintf("fetch at %d -> %s", c.Arg, answer("nothing"))
	}
	return fmt.Sprintf("f%d(%s) -> %s", c.F, Number(c.Arg, ""), answer(""))
}

func (c *Call) doubt() string {
	if c.Unknown {
		return " (unknown)"
	}
	return ""
}

// Number is a number as text, or `nothing` for None.
func Number(number int64, nothing string) string {
	if number == None {
		return nothing
	}
	return fmt.Sprint(number)
}
