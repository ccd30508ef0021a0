package models

import "splitbrain/porcupine/search"

// A register, with or without compare-and-set. Number 0: the initial value; reads that answer None saw it.
func init() {
	Register("register", func(p Parameters) search.Model {
		initial := p.Number(0, search.None)
		return search.Spec[int64]{
			Init: func() int64 { return initial },
			Step: func(value int64, call *search.Call) (int64, bool) {
				switch call.F {
				case search.Read:
					return value, value == call.Out || call.Out == search.None && value == initial
				case search.Write:
					return call.Arg, true
				case search.Cas:
					return call.Out, value == call.Arg
				case search.CasRefused:
					return value, value != call.Arg
				}
				return value, false
			},
			// No Hash: after the same operations there are few values, so that comparing them is the faster.
			Equal: equal[int64],
			Show:  func(value int64) string { return search.Number(value, "nil") },
		}
	})
}
