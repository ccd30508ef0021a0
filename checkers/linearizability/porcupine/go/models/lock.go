package models

import (
	"fmt"

	"splitbrain/porcupine/persistent"
	"splitbrain/porcupine/search"
)

const nobody = search.None

// lock is who holds it, how often, and the greatest fencing token so far. A token nobody told us (an acquire of unknown
// outcome, or without one) is at least one more than that before it: then `least`, the holder's token may be greater.
type lock struct {
	owner int64
	count int64
	token int64
	least bool
}

// A lock. Numbers: 0: how often its owner may acquire it (1: not reentrant; 0: no limit); 1: 1 where only the owner may
// release it; 2: 1 where tokens must grow from one holder to the next (and stay while one holds it, however often).
func init() {
	Register("lock", func(p Parameters) search.Model {
		limit, owned, fenced := p.Number(0, 1), p.Number(1, 0) == 1, p.Number(2, 0) == 1
		room := func(state lock, call *search.Call) bool {
			if state.count == 0 {
				return true
			}
			return state.owner == call.Process && limit != 1 && (limit == 0 || state.count < limit)
		}
		acquire := func(state lock, call *search.Call) (lock, bool) {
			if !room(state, call) {
				return state, false
			}
			told := !call.Unknown && call.Out != search.None
			if fenced {
				switch {
				case state.count > 0 && !told: // the token it has
				case state.count > 0 && state.least && call.Out >= state.token:
					state.token, state.least = call.Out, false
				case state.count > 0:
					if call.Out != state.token {
						return state, false
					}
				case !told:
					state.token, state.least = state.token+1, true
				case call.Out <= state.token:
					return state, false
				default:
					state.token, state.least = call.Out, false
				}
			}
			state.owner = call.Process
			if !owned && limit == 1 {
				state.owner = 0 // whoever: so that states do not differ by it
			}
			state.count++
			return state, true
		}
		return search.Spec[lock]{
			Init: func() lock { return lock{owner: nobody, token: search.None} }, // any token is greater
			Step: func(state lock, call *search.Call) (lock, bool) {
				switch call.F {
				case search.Acquire:
					return acquire(state, call)
				case search.Try:
					return state, !room(state, call)
				case search.Release:
					if state.count == 0 || owned && state.owner != call.Process {
						return state, false
					}
					state.count--
					if state.count == 0 {
						state.owner, state.least = nobody, false
					}
					return state, true
				}
				return state, false
			},
			Equal: equal[lock],
			Hash: func(state lock) uint64 {
				return persistent.Mix(uint64(state.owner) + persistent.Mix(uint64(state.count)+persistent.Mix(uint64(state.token))))
			},
			Show: func(state lock) string {
				switch {
				case state.count == 0:
					return "free"
				case !owned && limit == 1:
					return "held"
				}
				return fmt.Sprintf("held by %d, %d times", state.owner, state.count)
			},
		}
	})
}
