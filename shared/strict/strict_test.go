package strict_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/strict"
)

// duration reads "30s", as our configuration files write it.
type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return errors.New("is not a duration such as 30s")
	}
	*d = duration(parsed)
	return nil
}

type common struct {
	Name string `json:"name"`
}

type config struct {
	common
	Listen  string            `json:"listen"`
	Port    uint16            `json:"port"`
	Verbose bool              `json:"verbose"`
	Cadence duration          `json:"cadence"`
	Network *netip.Prefix     `json:"network"`
	Disks   []disk            `json:"disks"`
	Labels  map[string]string `json:"labels"`
	Groups  map[string]disk   `json:"groups"`
	Extra   json.RawMessage   `json:"extra"`
	Any     any               `json:"any"`
	Key     []byte            `json:"key"`
	Hidden  string            `json:"-"`
	private string
}

type disk struct {
	ID   string `json:"id"`
	Size *int64 `json:"size"`
}

func TestYAMLAndJSONReadTheSame(t *testing.T) {
	size := int64(1 << 30)
	network := netip.MustParsePrefix("10.0.0.0/8")
	want := config{
		common: common{Name: "node"}, Listen: "::1", Port: 8443, Verbose: true,
		Cadence: duration(30 * time.Second), Network: &network,
		Disks:  []disk{{ID: "a", Size: &size}, {ID: "b"}},
		Labels: map[string]string{"a.b/c": "1"}, Extra: json.RawMessage(`{"x":[1]}`), Key: []byte("hi"),
	}
	for name, text := range map[string]string{
		"yaml": "name: node\nlisten: '::1'\nport: 8443\nverbose: yes\ncadence: 30s\nnetwork: 10.0.0.0/8\n" +
			"disks:\n- {id: a, size: 1073741824}\n- id: b\n  size:\nlabels: {a.b/c: '1'}\nextra: {x: [1]}\nkey: aGk=\n",
		"json": "\xef\xbb\xbf{\n\t\"name\":\"node\",\"listen\":\"::1\",\"port\":8443,\"verbose\":true,\"cadence\":\"30s\"," +
			"\"network\":\"10.0.0.0/8\",\"disks\":[{\"id\":\"a\",\"size\":1073741824},{\"id\":\"b\",\"size\":null}]," +
			"\"labels\":{\"a.b/c\":\"1\"},\"extra\":{\"x\":[1]},\"key\":\"aGk=\"}",
		"yaml with a merge key": "disks:\n- &d {id: a, size: 1073741824}\n- <<: *d\n  id: b\n  size: null\n" +
			"name: node\nlisten: '::1'\nport: 8443\nverbose: true\ncadence: 30s\nnetwork: 10.0.0.0/8\n" +
			"labels: {a.b/c: '1'}\nextra: {x: [1]}\nkey: aGk=\n",
	} {
		t.Run(name, func(t *testing.T) {
			var got config
			if err := strict.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(err)
			}
			opts := cmp.Options{cmp.AllowUnexported(config{}), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })}
			if diff := cmp.Diff(want, got, opts); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEveryFaultAtOnceWithItsPlace(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string // pointer, a word of the message
	}{
		"unknown, double and of a wrong type": {
			text: "Listen: x\nport: 70000\nport: 1\ncadence: soon\nnetwork: 10.0.0.0\ndisks:\n- id: 7\n  sise: 1\n- 3\n" +
				"labels: {a.b: {c: 1}}\ngroups: {a.b: {idd: x}}\nverbose: 'no'\nprivate: x\n",
			want: []string{
				"/port more than once",
				"/Listen did you mean listen?",
				"/cadence not a duration such as 30s",
				"/disks/0/id found a number, expected a string; in YAML, put it in quotes",
				"/disks/0/sise did you mean size?",
				"/disks/1 found a number, expected an object",
				"/groups/a.b/idd known names are id, size",
				"/labels/a.b found an object, expected a string",
				"/network ParsePrefix",
				"/private not known here",
				"/verbose found a string, expected a boolean",
			},
		},
		"unknown and of a wrong type": {
			text: "Listen: x\nport: 70000\ncadence: soon\nnetwork: ten\ndisks:\n- id: 7\n  sise: 1\n- 3\n" +
				"labels: {a.b: {c: 1}}\ngroups: {a.b: {idd: x}}\nverbose: 'no'\nprivate: x\nHidden: x\nname: [x]\nkey: '*'\n",
			want: []string{
				"/Hidden not known here",
				"/Listen did you mean listen?",
				"/cadence not a duration such as 30s",
				"/disks/0/id found a number, expected a string; in YAML, put it in quotes",
				"/disks/0/sise did you mean size?",
				"/disks/1 found a number, expected an object",
				"/groups/a.b/idd not known here",
				"/key base64",
				"/labels/a.b found an object, expected a string",
				"/name found a list, expected a string",
				"/network ParsePrefix",
				"/port fits in 16 bits",
				"/private not known here",
				"/verbose found a string, expected a boolean",
			},
		},
		"json keeps its order": {
			text: `{"port":"1","disks":{},"port":2,"disks":[{"id":"a","id":"b"}],"a/b~c":1}`,
			want: []string{
				"/port more than once", "/disks more than once", "/disks/0/id more than once",
				"/port found a string", "/disks found an object, expected a list",
				"/a~1b~0c not known here",
			},
		},
		"two documents":  {text: "name: a\n---\nname: b\n", want: []string{" 2 YAML documents"}},
		"not YAML":       {text: "name: [a\n", want: []string{" is not YAML: line"}},
		"half of JSON":   {text: `{"name":`, want: []string{" is not whole JSON: it ends at line 1, column 8; was it cut off?"}},
		"a list":         {text: "- a\n", want: []string{" found a list, expected an object"}},
		"nested deeply":  {text: strings.Repeat("[", 3000) + strings.Repeat("]", 3000), want: []string{" deeper than 100"}},
		"doubled deeply": {text: "labels:\n  k: a\n  k: b\ndisks:\n- id: a\n  id: b\n", want: []string{"/labels/k more than once", "/disks/0/id more than once"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := config{Listen: "as it was", private: "too"}
			got := before
			err := strict.Unmarshal([]byte(test.text), &got)
			var faults fault.List
			if !errors.As(err, &faults) {
				t.Fatalf("got %v, want a fault.List", err)
			}
			if diff := cmp.Diff(before, got, cmp.AllowUnexported(config{})); diff != "" {
				t.Errorf("the target changed: %s", diff)
			}
			if len(faults) != len(test.want) {
				t.Fatalf("got %d faults, want %d:\n%v", len(faults), len(test.want), faults)
			}
			for i, want := range test.want {
				pointer, word, _ := strings.Cut(want, " ")
				if faults[i].Pointer != pointer || !strings.Contains(faults[i].Message, word) {
					t.Errorf("fault %d is %v, want %v", i, faults[i], want)
				}
			}
		})
	}
}

func TestWhatHasNoFaultIsRead(t *testing.T) {
	for text, want := range map[string]struct {
		config
		readable bool
	}{
		"": {config{Port: 1}, true},
		"Listen: x\nname: a\nname: b\nport: many\nverbose: true\ndisks: [{id: 7}, {id: a}]\n": {
			config{common: common{Name: "b"}, Port: 1, Verbose: true, Disks: []disk{{}, {ID: "a"}}}, true},
		"name: a\n---\nname: b\n": {config{Port: 1}, false},
		"name: [a\n":              {config{Port: 1}, false},
	} {
		got := config{Port: 1}
		readable, err := strict.UnmarshalKnown([]byte(text), &got)
		if readable != want.readable || (err == nil) != (text == "") {
			t.Errorf("%q: %t, %v", text, readable, err)
		}
		if diff := cmp.Diff(want.config, got, cmp.AllowUnexported(config{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestOnlyYAMLIsToldToUseQuotes(t *testing.T) {
	for text, want := range map[string]bool{"listen: 1\n": true, `{"listen":1}`: false, "listen: [1]\n": false} {
		err := strict.Unmarshal([]byte(text), &config{})
		if err == nil || strings.Contains(err.Error(), "quotes") != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestWhatIsLeftOutKeepsItsDefault(t *testing.T) {
	for _, text := range []string{"", "# nothing yet\n", "---\n", "null", "port:\n", "listen: ~\n"} {
		got := config{Listen: "127.0.0.1", Port: 8443}
		if err := strict.Unmarshal([]byte(text), &got); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if got.Listen != "127.0.0.1" || got.Port != 8443 {
			t.Errorf("%q: defaults are gone: %+v", text, got)
		}
	}
}

func TestFaultsDoNotRepeatValues(t *testing.T) {
	var got config
	err := strict.Unmarshal([]byte("port: hunter2\nhunter: hunter2\nname: {a: hunter2}\n"), &got)
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}

func TestOnlyAPointerCanBeReadInto(t *testing.T) {
	for _, v := range []any{nil, config{}, (*config)(nil)} {
		if err := strict.Unmarshal([]byte("{}"), v); err == nil {
			t.Errorf("no error for %T", v)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add("name: a\nport: 1\n")
	f.Add(`{"disks":[{"id":"a"}],"labels":{"a":"b"}}`)
	f.Add("a: &a {b: 1}\nc: {<<: *a, b: 2}\n--- x\n")
	f.Fuzz(func(t *testing.T, text string) {
		var got config
		err := strict.Unmarshal([]byte(text), &got)
		var faults fault.List
		if err != nil && !errors.As(err, &faults) {
			t.Errorf("not a fault.List: %v", err)
		}
		if err == nil {
			_ = fmt.Sprint(got)
		}
	})
}
