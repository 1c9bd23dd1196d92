package proc

import (
	"slices"
	"testing"
)

func TestTable(t *testing.T) {
	of := func(pid, parent int, start uint64) Stat { return Stat{ID: ID{pid, start}, PPID: parent} }
	// 10 has got the pid of the parent of 11. 20 and 21 have got each other's parent's.
	table := NewTable([]Stat{of(1, 0, 0), of(2, 1, 5), of(3, 2, 6), of(4, 2, 5), of(10, 1, 9), of(11, 10, 8), of(20, 21, 7), of(21, 20, 7), of(30, 29, 3)})
	below := func(except map[int]bool, pids ...int) (out []int) {
		for _, s := range table.Below(pids, except) {
			out = append(out, s.PID)
		}
		return out
	}
	for what, c := range map[string]struct{ got, want []int }{
		"parents first":               {below(nil, 1), []int{1, 2, 10, 3, 4}},
		"each once":                   {below(nil, 3, 2), []int{3, 2, 4}},
		"without what is below":       {below(map[int]bool{2: true}, 1, 4), []int{1, 4, 10}},
		"a circle":                    {below(nil, 20), []int{20, 21}},
		"of nobody":                   {below(nil, 29), nil},
		"children of one not in here": {table.Children(29), []int{30}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
	if _, ok := table.Parent(of(11, 10, 8)); ok {
		t.Error("a parent is younger than its child")
	}
	if table.Has(ID{2, 4}) || !table.Has(ID{2, 5}) || table.Has(ID{}) {
		t.Error("a pid alone is no identity")
	}
	table.Put(of(4, 3, 10))
	table.Put(of(2, 1, 11))
	for what, c := range map[string]struct{ got, want []int }{
		"what was below another one": {below(nil, 2), []int{2}},
		"at its new parent":          {below(nil, 3), []int{3, 4}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
}
