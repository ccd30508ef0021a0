package models

import (
	"fmt"

	"splitbrain/porcupine/persistent"
	"splitbrain/porcupine/search"
)

// One key of a store of strings: read, write, append. Arg and Out are places in the table; a read of None saw the empty
// string, which a key holds before it is written.
func init() {
	type text = persistent.Sequence[byte]
	Register("key-value", func(p Parameters) search.Model {
		words := make([]text, len(p.Table))
		for i, word := range p.Table {
			words[i] = persistent.NewSequence[byte]().Append(word...)
		}
		return search.Spec[text]{
			Init: persistent.NewSequence[byte],
			Step: func(value text, call *search.Call) (text, bool) {
				switch call.F {
				case search.Read:
					if call.Out == search.None {
						return value, value.Len() == 0
					}
					return value, value.Equal(words[call.Out])
				case search.Write:
					return persistent.NewSequence[byte]().Append(p.Table[call.Arg]...), true
				case search.Append:
					return value.Append(p.Table[call.Arg]...), true
				}
				return value, false
			},
			Equal: text.Equal,
			Hash:  text.Hash,
			Show:  func(value text) string { return fmt.Sprintf("%q", value.Elements()) },
			ShowCall: func(call *search.Call) string {
				switch {
				case call.F == search.Write:
					return fmt.Sprintf("write %q", p.Table[call.Arg])
				case call.F == search.Append:
					return fmt.Sprintf("append %q", p.Table[call.Arg])
				case call.Out == search.None:
					return `read -> ""`
				}
				return fmt.Sprintf("read -> %q", p.Table[call.Out])
			},
		}
	})
}
