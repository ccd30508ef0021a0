package models

import (
	"fmt"

	"splitbrain/porcupine/persistent"
	"splitbrain/porcupine/search"
)

// An append-only log with offsets from 0 on, without gaps. An append whose offset is None went wherever the end was.
func init() {
	type log = persistent.Sequence[int64]
	Register("log", func(Parameters) search.Model {
		return search.Spec[log]{
			Init: persistent.NewSequence[int64],
			Step: func(entries log, call *search.Call) (log, bool) {
				switch call.F {
				case search.Append:
					if !call.Unknown && call.Out != search.None && call.Out != int64(entries.Len()) {
						return entries, false
					}
					return entries.Append(call.Arg), true
				case search.Fetch:
					if call.Arg < 0 || call.Arg >= int64(entries.Len()) {
						return entries, call.Out == search.None
					}
					return entries, entries.At(int(call.Arg)) == call.Out
				}
				return entries, false
			},
			Equal: log.Equal,
			Hash:  log.Hash,
			Show:  func(entries log) string { return fmt.Sprint(entries.Elements()) },
		}
	})
}
