package models

import (
	"fmt"

	"splitbrain/porcupine/persistent"
	"splitbrain/porcupine/search"
)

// A register of a set, from Porcupine's tests, nondeterministic: a Write stores any part of the list at Arg in the
// table; a Read answers all that is stored, and a Fetch any part of it (Out, in the table; None: nothing).
func init() {
	type set = *persistent.Tree
	Register("subset-register", func(p Parameters) search.Model {
		lists := p.Lists()
		sets := make([]set, len(lists)) // a value listed twice is there once
		for i, list := range lists {
			for _, value := range list {
				sets[i] = sets[i].Set(persistent.Key{A: value}, 1)
			}
		}
		answer := func(call *search.Call) set {
			if call.Out == search.None {
				return nil
			}
			return sets[call.Out]
		}
		text := func(stored set) string {
			return show(stored, func(key persistent.Key, _ int64) string { return fmt.Sprint(key.A) })
		}
		return search.Choices[set]{
			Init: func() []set { return []set{nil} },
			Step: func(stored set, call *search.Call) []set {
				switch call.F {
				case search.Write:
					parts := []set{nil}
					for _, value := range lists[call.Arg] {
						for _, part := range parts {
							parts = append(parts, part.Set(persistent.Key{A: value}, 1))
						}
					}
					return parts
				case search.Fetch:
					within := true
					answer(call).Each(func(key persistent.Key, _ int64) {
						_, there := stored.Get(key)
						within = within && there
					})
					if within {
						return []set{stored}
					}
				case search.Read:
					if stored.Equal(answer(call)) {
						return []set{stored}
					}
				}
				return nil
			},
			Equal: set.Equal,
			Hash:  set.Hash,
			Show:  text,
			ShowCall: func(call *search.Call) string {
				switch call.F {
				case search.Write:
					return fmt.Sprintf("put any of %v", lists[call.Arg])
				case search.Fetch:
					return fmt.Sprintf("get any -> %s", text(answer(call)))
				}
				return fmt.Sprintf("get all -> %s", text(answer(call)))
			},
		}
	})
}
