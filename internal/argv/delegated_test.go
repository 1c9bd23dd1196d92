package argv

import (
	"reflect"
	"testing"
)

func TestDelegatedArgs(t *testing.T) {
	own, uid, ok, err := SplitDelegatedArgs(delegatedArgs("p", 1<<32-2, []string{"reap", "--json"}))
	if !ok || err != nil || uid != 1<<32-2 || !reflect.DeepEqual(own, []string{"p", "reap", "--json"}) {
		t.Errorf("%q, %d, %v, %v", own, uid, ok, err)
	}
	for _, args := range [][]string{
		{"p", roleDelegated}, {"p", roleDelegated, ",1"}, {"p", roleDelegated, "1,2,3", "reap"}, {"p", roleDelegated, ",-1", "reap"}, {"p", roleDelegated, "reap", "--json"},
	} {
		if _, _, ok, err := SplitDelegatedArgs(args); !ok || err == nil {
			t.Errorf("%q: %v, %v", args, ok, err)
		}
	}
	if _, _, ok, _ := SplitDelegatedArgs([]string{"p", "reap", "--json"}); ok {
		t.Error("a person's words are taken for ours")
	}
}
