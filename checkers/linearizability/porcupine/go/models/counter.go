package models

import (
	"fmt"

	"splitbrain/porcupine/persistent"
	"splitbrain/porcupine/search"
)

// A counter. Number 0: where it starts; reads that answer None saw that.
func init() {
	Register("counter", func(p Parameters) search.Model {
		initial := p.Number(0, 0)
		return search.Spec[int64]{
			Init: func() int64 { return initial },
			Step: func(count int64, call *search.Call) (int64, bool) {
				switch call.F {
				case search.Add:
					return count + call.Arg, true
				case search.Read:
					return count, count == call.Out || call.Out == search.None && count == initial
				}
				return count, false
			},
			Equal: equal[int64],
			Hash:  func(count int64) uint64 { return persistent.Mix(uint64(count)) },
			Show:  func(count int64) string { return fmt.Sprint(count) },
		}
	})
}
