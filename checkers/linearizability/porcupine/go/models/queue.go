package models

import (
	"fmt"

	"splitbrain/porcupine/persistent"
	"splitbrain/porcupine/search"
)

// A FIFO queue. A take of unknown outcome takes the first, if there is one.
func init() {
	type queue = persistent.Sequence[int64]
	Register("fifo-queue", func(Parameters) search.Model {
		return search.Spec[queue]{
			Init: persistent.NewSequence[int64],
			Step: func(values queue, call *search.Call) (queue, bool) {
				switch {
				case call.F == search.Put:
					return values.Append(call.Arg), true
				case call.F != search.Take:
					return values, false
				case call.Out == search.None && !call.Unknown:
					return values, values.Len() == 0
				case values.Len() > 0 && (call.Unknown || values.At(0) == call.Out):
					return values.Rest(), true
				}
				return values, false
			},
			Equal: queue.Equal,
			Hash:  queue.Hash,
			Show:  func(values queue) string { return fmt.Sprint(values.Elements()) },
		}
	})
}
