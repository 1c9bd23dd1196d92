package argv

import (
	"reflect"
	"testing"
)

func TestDelegatedArgs(t *testing.T) {
	for _, as := range []Delegated{{UID: 1, GID: 2, Tasks: 3, Groups: nil}, {UID: 1<<32 - 2, GID: 0, Groups: []int{4, 5}}} {
		own, got, ok, err := SplitDelegatedArgs(DelegatedArgs("p", as, []string{"reap", "--json"}))
		if !ok || err != nil || !reflect.DeepEqual(got, as) || !reflect.DeepEqual(own, []string{"p", "reap", "--json"}) {
			t.Errorf("%+v: %+v, %q, %v, %v", as, got, own, ok, err)
		}
	}
	for _, args := range [][]string{{"p", roleDelegated}, {"p", roleDelegated, "1,2,3,"}, {"p", roleDelegated, "1,2,3", "reap"}, {"p", roleDelegated, "1,-2,3,", "reap"}, {"p", roleDelegated, "1,2,3,4 -5", "reap"}, {"p", roleDelegated, "reap", "--json"}} {
		if _, _, ok, err := SplitDelegatedArgs(args); !ok || err == nil {
			t.Errorf("%q: %v, %v", args, ok, err)
		}
	}
	if _, _, ok, _ := SplitDelegatedArgs([]string{"p", "reap", "--json"}); ok {
		t.Error("a person's words are taken for ours")
	}
}
