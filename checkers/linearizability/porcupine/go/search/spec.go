package search

import (
	"html"

	"github.com/anishathalye/porcupine"
)

// Model is a sequential specification: what one object allows. Made from a Spec or from Choices.
type Model interface {
	// bind makes the model ready for searches that end when stop says so.
	bind(stop func() bool, purpose purpose) *binding
}

// purpose of a search: what is wanted of it beside the verdict.
type purpose int

const (
	verdictOnly  purpose = iota // of calls in no ordered channel: the fastest
	longestOrder                // the longest prefix; of one search, of one key
	picture                     // what Porcupine's page draws
)

// Spec is a deterministic model with states of type S. States are immutable: Step makes a new one.
type Spec[S any] struct {
	// Init is the state of a fresh object; called once for each key.
	Init func() S
	// Step tries to let the call take effect: the state after it, and whether the object could have answered so.
	Step func(state S, call *Call) (S, bool)
	// Equal tells whether two states are the same.
	Equal func(a, b S) bool
	// Hash of a state, equal for equal states; spares comparisons. May be nil.
	Hash func(state S) uint64
	// Show is a state as text.
	Show func(state S) string
	// ShowCall is a call as text; nil: as Call.String has it.
	ShowCall func(call *Call) string
}

// place is a state together with the calls that led to it: so the longest prefix is known at any moment, also when
// time or memory run out. It costs one small allocation a step, where a boxed state would have cost one as well.
type place[S any] struct {
	state    S
	parent   *place[S]
	call     *Call
	known    int32   // how many calls with known outcome led here
	channels []int32 // for each ordered channel, the position up to which it has come; nil where there is none
}

// binding is a model made ready for one search by Porcupine.
type binding struct {
	model porcupine.Model
	// cut: the search was stopped before its end.
	cut bool
	// longest is the longest prefix found, counted in calls of known outcome, and the state after it.
	longest func() ([]*Call, string)
	// show is a call as text.
	show func(*Call) string
}

func (spec Spec[S]) bind(stop func() bool, purpose purpose) *binding {
	if purpose == verdictOnly {
		return spec.bare(stop)
	}
	track := purpose == longestOrder
	bound := &binding{show: spec.ShowCall}
	if bound.show == nil {
		bound.show = (*Call).String
	}
	var best *place[S]
	bound.model = porcupine.Model{
		Init: func() interface{} {
			start := &place[S]{state: spec.Init()}
			if track && best == nil {
				best = start
			}
			return start
		},
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			if stop() {
				if track {
					bound.cut = true
				}
				return false, nil
			}
			at, call := state.(*place[S]), input.(*Call)
			channels := at.channels
			if call.channel >= 0 {
				if done := position(channels, call.channel); done > call.position && call.Unknown {
					// later operations of its channel took effect, so this one did not
					return true, &place[S]{at.state, at, call, at.known, channels}
				} else if done > call.position || done < call.floor {
					return false, nil
				}
			}
			// Most steps of a search are refused: nothing is made before that is known.
			after, allowed := spec.Step(at.state, call)
			switch {
			case allowed && call.channel >= 0:
				channels = advance(channels, call.channel, call.position)
			case allowed:
			case call.Unknown:
				after = at.state
			default:
				return false, nil
			}
			next := &place[S]{after, at, call, at.known, channels}
			if !call.Unknown {
				next.known++
				if track && next.known > best.known {
					best = next
				}
			}
			return true, next
		},
		Equal: func(a, b interface{}) bool { return spec.Equal(a.(*place[S]).state, b.(*place[S]).state) },
		DescribeOperation: func(input, _ interface{}) string {
			return bound.show(input.(*Call))
		},
		// The visualisation puts states into its page as HTML, unescaped.
		DescribeState: func(state interface{}) string { return html.EscapeString(short(spec.Show(state.(*place[S]).state))) },
	}
	if spec.Hash != nil {
		bound.model.Hash = func(state interface{}) uint64 { return spec.Hash(state.(*place[S]).state) }
	}
	bound.longest = func() ([]*Call, string) {
		var calls []*Call
		for at := best; at.parent != nil; at = at.parent {
			calls = append(calls, at.call)
		}
		for i, j := 0, len(calls)-1; i < j; i, j = i+1, j-1 {
			calls[i], calls[j] = calls[j], calls[i]
		}
		return calls, short(spec.Show(best.state))
	}
	return bound
}

// bare is a model whose states are those of the specification and nothing else, which spares an allocation a step.
func (spec Spec[S]) bare(stop func() bool) *binding {
	bound := &binding{}
	bound.model = porcupine.Model{
		Init: func() interface{} { return spec.Init() },
		Step: func(state, input, _ interface{}) (bool, interface{}) {
			if stop() {
				bound.cut = true
				return false, nil
			}
			call := input.(*Call)
			after, allowed := spec.Step(state.(S), call)
			if !allowed {
				return call.Unknown, state
			}
			return true, after
		},
		Equal: func(a, b interface{}) bool { return spec.Equal(a.(S), b.(S)) },
	}
	if spec.Hash != nil {
		bound.model.Hash = func(state interface{}) uint64 { return spec.Hash(state.(S)) }
	}
	return bound
}

// short keeps the two ends of a long text.
func short(text string) string {
	const ends = 150
	if runes := []rune(text); len(runes) > 2*ends+5 {
		return string(runes[:ends]) + " ... " + string(runes[len(runes)-ends:])
	}
	return text
}

func position(channels []int32, channel int32) int32 {
	if int(channel) >= len(channels) {
		return -1
	}
	return channels[channel]
}

// advance copies: places share their channels with those after them.
func advance(channels []int32, channel, position int32) []int32 {
	size := len(channels)
	if int(channel) >= size {
		size = int(channel) + 1
	}
	moved := make([]int32, size)
	for i := copy(moved, channels); i < size; i++ {
		moved[i] = -1
	}
	moved[channel] = position
	return moved
}

// Choices is a nondeterministic model: a step leads to any of several states, or to none where the object could not
// have answered so. It is searched by the power set: a state of the search is the set of states that it may be in.
type Choices[S any] struct {
	Init  func() []S
	Step  func(state S, call *Call) []S
	Equal func(a, b S) bool
	// Hash of a state, equal for equal states. May be nil.
	Hash     func(state S) uint64
	Show     func(state S) string
	ShowCall func(call *Call) string
}

func (choices Choices[S]) bind(stop func() bool, purpose purpose) *binding {
	contains := func(states []S, wanted S) bool {
		for _, state := range states {
			if choices.Equal(state, wanted) {
				return true
			}
		}
		return false
	}
	union := func(states, more []S) []S {
		for _, state := range more {
			if !contains(states, state) {
				states = append(states, state)
			}
		}
		return states
	}
	spec := Spec[[]S]{
		Init: func() []S { return union(nil, choices.Init()) },
		Step: func(states []S, call *Call) ([]S, bool) {
			var next []S
			for _, state := range states {
				reached := choices.Step(state, call)
				if len(reached) == 0 && call.Unknown {
					reached = []S{state}
				}
				next = union(next, reached)
			}
			return next, len(next) > 0
		},
		// Sets without repetition: of equal size and one within the other, they are equal.
		Equal: func(a, b []S) bool {
			if len(a) != len(b) {
				return false
			}
			for _, state := range a {
				if !contains(b, state) {
					return false
				}
			}
			return true
		},
		Show: func(states []S) string {
			text := ""
			for i, state := range states {
				if i > 0 {
					text += " or "
				}
				text += choices.Show(state)
			}
			return text
		},
		ShowCall: choices.ShowCall,
	}
	if choices.Hash != nil {
		spec.Hash = func(states []S) (hash uint64) {
			for _, state := range states {
				hash ^= choices.Hash(state)
			}
			return hash
		}
	}
	return spec.bind(stop, purpose)
}
