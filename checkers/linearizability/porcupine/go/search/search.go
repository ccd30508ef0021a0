package search

import (
	"fmt"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/anishathalye/porcupine"
)

// History is the operations as columns, ordered by call.
type History struct {
	F                                       []byte
	Arg, Out, Call, Ret, Key, Process, Chan []int64 // Chan may be empty: no ordered channels
}

// Verdict of a search.
type Verdict string

const (
	Ok      Verdict = "ok"
	Illegal Verdict = "illegal"
	Unknown Verdict = "unknown"
)

// Answer is what a search found.
type Answer struct {
	Verdict Verdict
	// Why a search ended unknown; or what could not take effect, where it is illegal.
	Why string
	// Keys in all, and those that were decided.
	Keys, Decided int
	// Longest prefix of the key in question that linearizes, in its order, as rows; Stuck: the operation that must take
	// effect next at the latest, and did not in any order that got so far (-1: none).
	Longest []int32
	Stuck   int32
}

// Run decides each key by itself, small keys first, and stops at the first that is illegal. Of several illegal keys the
// answer is always about the same one (the smallest), unless time or memory ran out. Without explain it has the verdict
// and the counts alone.
func Run(model Model, history History, limits Limits, explain bool) Answer {
	watch := startWatch(limits)
	keys := split(history)
	wanted := longestOrder // what states carry for it, ordered channels need too
	if !explain && len(history.Chan) == 0 {
		wanted = verdictOnly
	}
	sort.SliceStable(keys, func(i, j int) bool { return len(keys[i]) < len(keys[j]) })

	var next, failed atomic.Int64
	var undecided *found
	var illegal *found
	failed.Store(int64(len(keys)))
	decided := 0
	var lock sync.Mutex
	var workers sync.WaitGroup
	for n := runtime.GOMAXPROCS(0); n > 0; n-- {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for {
				i := next.Add(1) - 1
				if i >= failed.Load() || watch.stopped.Load() {
					return
				}
				stop := func() bool { return watch.stopped.Load() || failed.Load() < i }
				result := one(model, keys[i], history, stop, wanted)
				lock.Lock()
				switch {
				case result.verdict == Unknown:
					if undecided == nil || i < undecided.key {
						undecided = &found{i, result}
					}
				case result.verdict == Illegal:
					decided++
					if i < failed.Load() {
						failed.Store(i)
						illegal = &found{i, result}
					}
				default:
					decided++
				}
				lock.Unlock()
			}
		}()
	}
	workers.Wait()
	why := watch.end()

	answer := Answer{Verdict: Ok, Keys: len(keys), Decided: decided, Stuck: -1}
	switch {
	case illegal != nil && !explain:
		answer.Verdict = Illegal
	case illegal != nil:
		answer.Verdict = Illegal
		answer.Longest, answer.Stuck, answer.Why = illegal.result.prefix(history, keys[illegal.key])
	case decided < len(keys):
		answer.Verdict, answer.Why = Unknown, why
		if undecided != nil && explain {
			answer.Longest, answer.Stuck, _ = undecided.result.prefix(history, keys[undecided.key])
		}
	}
	return answer
}

type found struct {
	key    int64
	result outcome
}

// outcome of the search of one key.
type outcome struct {
	verdict Verdict
	bound   *binding
}

func one(model Model, calls []Call, history History, stop func() bool, wanted purpose) outcome {
	order(calls, history)
	bound := model.bind(stop, wanted)
	legal := porcupine.CheckOperations(bound.model, operations(calls, history))
	switch {
	case legal:
		// Kept small: nobody asks how an object that is right got there.
		return outcome{verdict: Ok}
	case bound.cut:
		return outcome{Unknown, bound}
	}
	return outcome{Illegal, bound}
}

// prefix is the longest one as rows, the operation that could not follow it, and a sentence.
func (result outcome) prefix(history History, calls []Call) ([]int32, int32, string) {
	longest, state := result.bound.longest()
	rows := make([]int32, len(longest))
	done := make(map[int32]bool, len(longest))
	for i, call := range longest {
		rows[i] = call.Row
		done[call.Row] = true
	}
	var stuck *Call
	known := 0
	for i := range calls {
		call := &calls[i]
		if call.Unknown {
			continue
		}
		known++
		if !done[call.Row] && (stuck == nil || history.Ret[call.Row] < history.Ret[stuck.Row]) {
			stuck = call
		}
	}
	if stuck == nil {
		return rows, -1, ""
	}
	taken := 0
	for _, call := range longest {
		if !call.Unknown {
			taken++
		}
	}
	return rows, stuck.Row, fmt.Sprintf(
		"in no order can %s take effect: the longest takes %d of %d operations, and ends at %s",
		result.bound.show(stuck), taken, known, state,
	)
}

// split makes the calls, grouped by key, keys in ascending order.
func split(history History) [][]Call {
	index := make(map[int64]int32)
	var names []int64
	var sizes []int
	which := make([]int32, len(history.Key))
	for row, key := range history.Key {
		place, there := index[key]
		if !there {
			place = int32(len(names))
			index[key] = place
			names = append(names, key)
			sizes = append(sizes, 0)
		}
		which[row] = place
		sizes[place]++
	}
	all := make([]Call, len(history.Key))
	groups := make([][]Call, len(names))
	for place, size := range sizes {
		groups[place], all = all[:0:size], all[size:]
	}
	for row := range which {
		groups[which[row]] = append(groups[which[row]], Call{
			F:       F(history.F[row]),
			Unknown: history.Ret[row] == Never,
			Row:     int32(row),
			channel: -1,
			Arg:     history.Arg[row],
			Out:     history.Out[row],
			Process: history.Process[row],
		})
	}
	sort.Sort(&byKey{names, groups})
	return groups
}

type byKey struct {
	keys   []int64
	groups [][]Call
}

func (b *byKey) Len() int           { return len(b.keys) }
func (b *byKey) Less(i, j int) bool { return b.keys[i] < b.keys[j] }
func (b *byKey) Swap(i, j int) {
	b.keys[i], b.keys[j] = b.keys[j], b.keys[i]
	b.groups[i], b.groups[j] = b.groups[j], b.groups[i]
}

// order notes what must come before what within the ordered channels of one key.
func order(calls []Call, history History) {
	if len(history.Chan) == 0 {
		return
	}
	type end struct{ channel, position, floor int32 }
	ends := make(map[int64]*end)
	for i := range calls {
		call := &calls[i]
		number := history.Chan[call.Row]
		if number < 0 {
			continue
		}
		last, there := ends[number]
		if !there {
			last = &end{int32(len(ends)), -1, -1}
			ends[number] = last
		}
		last.position++
		call.channel, call.position, call.floor = last.channel, last.position, last.floor
		if !call.Unknown {
			last.floor = last.position
		}
	}
}

func operations(calls []Call, history History) []porcupine.Operation {
	made := make([]porcupine.Operation, len(calls))
	for i := range calls {
		call := &calls[i]
		made[i] = porcupine.Operation{
			ClientId: int(call.Process), Input: call, Call: history.Call[call.Row], Return: history.Ret[call.Row],
		}
	}
	return made
}
