package config_test

import (
	_ "embed"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/config"
	"github.com/nodehitch/nodehitch/shared/strict"
)

//go:embed controller.yaml
var example string

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "controller.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheExampleShowsEveryDefault(t *testing.T) {
	// A setting is commented out with "#", prose begins with "# ".
	uncommented := regexp.MustCompile(`(?m)^#(\S.*|(?:  )+\S+:.*)$`).ReplaceAllString(example, "$1")
	var got config.Config
	if err := strict.Unmarshal([]byte(uncommented), &got); err != nil {
		t.Fatalf("%v in\n%s", err, uncommented)
	}
	want := config.Default()
	want.Names, want.AdvertiseURLs, want.ControllerURLs, want.UICertificate.Names = []string{}, []string{}, []string{}, []string{}
	want.Store.Etcd.Endpoints = []string{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	names(reflect.TypeFor[config.Config](), func(name string) {
		if !regexp.MustCompile(`(?m)^ *` + name + ":").MatchString(uncommented) {
			t.Errorf("%s is not in the example", name)
		}
	})
	untouched, err := config.Load(config.Source{File: write(t, example)})
	if err != nil {
		t.Fatal(err)
	}
	defaults, err := config.Load(config.Source{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(defaults, untouched); diff != "" {
		t.Errorf("the example as it is changes something: %s", diff)
	}
}

// names calls f with the name of every leaf.
func names(t reflect.Type, f func(string)) {
	for i := range t.NumField() {
		if field := t.Field(i); field.Type.Kind() == reflect.Struct {
			names(field.Type, f)
		} else if name := field.Tag.Get("json"); name != "-" {
			f(name)
		}
	}
}

func TestFlagsWinOverEnvironmentOverFileOverDefault(t *testing.T) {
	got, err := config.Load(config.Source{
		File:    write(t, "listen: ':1'\nsocket: /file.sock\nmetricsListen: ':4'\npollSeconds: 10\n"),
		Environ: []string{"NODEHITCH_CONTROLLER_LISTEN=:2", "NODEHITCH_CONTROLLER_SOCKET=/env.sock", "NODEHITCH_CONTROLLER_NAMES=a.example, 10.0.0.1", "HOME=/root"},
		Flags:   map[string]string{"listen": ":3"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.Listen, want.Socket, want.MetricsListen = ":3", "/env.sock", ":4"
	want.PollSeconds = 10
	want.Names = []string{"a.example", "10.0.0.1"}
	want.AdvertiseURLs = []string{"https://a.example:3", "https://10.0.0.1:3"}
	want.SealKeyFile = "/var/lib/nodehitch/controller/seal.key"
	want.Attestation.Mode = config.AttestToken
	if diff := cmp.Diff(want, got.Config); diff != "" {
		t.Error(diff)
	}
}

func TestAttestationFollowsTheCloud(t *testing.T) {
	for file, want := range map[string]string{
		"{}":                                   config.AttestToken,
		"openstack: {cloud: lab}":              config.AttestNova,
		"openstack: {vimConnectionInfo: true}": config.AttestNova,
		"{openstack: {cloud: lab}, attestation: {mode: token}}":  config.AttestToken,
		"{openstack: {cloud: lab}, attestation: {nonce: 'off'}}": config.AttestNova,
	} {
		got, err := config.Load(config.Source{File: write(t, file)})
		if err != nil || got.Attestation.Mode != want {
			t.Errorf("%s: attestation %q (%v), expected %s", file, got.Attestation.Mode, err, want)
		}
	}
}

// An agent may mend by itself what it tries again.
func TestTheGraceIsNoShorterThanAnAgentsPause(t *testing.T) {
	for seconds, valid := range map[string]bool{"59": false, "60": true, "86400": true, "86401": false} {
		got, err := config.Load(config.Source{Flags: map[string]string{"failure-grace-seconds": seconds}})
		if valid && (err != nil || strconv.Itoa(got.FailureGraceSeconds) != seconds) {
			t.Errorf("%s: %v", seconds, err)
		}
		if want := "--failure-grace-seconds: is " + seconds + "; expected 60 to 86400"; !valid && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", seconds, err, want)
		}
	}
}

func TestHowManyNodesMayBeInFlight(t *testing.T) {
	for text, of := range map[string]map[int]int{"1": {0: 1, 200: 1}, "5": {200: 5}, `"7"`: {3: 7}, "10%": {0: 1, 9: 1, 19: 1, 200: 20}, "100%": {200: 200}} {
		got, err := config.Load(config.Source{File: write(t, "agentUpgrade: {maxUnavailable: "+text+"}")})
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		for all, want := range of {
			if n := got.AgentUpgrade.MaxUnavailable.Of(all); n != want {
				t.Errorf("%s of %d is %d, want %d", text, all, n, want)
			}
		}
	}
	for _, text := range []string{"0", "-1", "0%", "101%", "1.5", "many", "true", "''"} {
		_, err := config.Load(config.Source{File: write(t, "agentUpgrade: {maxUnavailable: "+text+"}")})
		if err == nil || !strings.Contains(err.Error(), ":/agentUpgrade/maxUnavailable: ") || !strings.Contains(err.Error(), "expected a number from 1, such as 5, or a percentage") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := config.Load(config.Source{Flags: map[string]string{"agent-upgrade-max-unavailable": "some"}}); err == nil || !strings.Contains(err.Error(), "--agent-upgrade-max-unavailable: ") {
		t.Errorf("of a flag: %v", err)
	}
}

// A name is for browsers or for agents: each of them knows another authority.
func TestTheNamesOfBrowsersAreNotThoseOfAgents(t *testing.T) {
	const certificate = "file: /etc/nodehitch/ui.pem, key: /etc/nodehitch/ui.key"
	for file, want := range map[string]string{
		"{names: [controller], uiCertificate: {names: [ui.example], " + certificate + "}}":                                 "",
		"uiCertificate: {names: [ui.example], file: /a.pem}":                                                               "/uiCertificate: has not all of names, file and key",
		"uiCertificate: {" + certificate + "}":                                                                             "/uiCertificate: has not all of names, file and key",
		"uiCertificate: {names: [192.0.2.1], " + certificate + "}":                                                         `/uiCertificate/names/0: is "192.0.2.1"; expected a DNS name`,
		"uiCertificate: {names: ['*.example'], " + certificate + "}":                                                       `/uiCertificate/names/0: is "*.example"; expected a DNS name`,
		"uiCertificate: {names: [ui.example], file: a.pem, key: /b}":                                                       `/uiCertificate/file: is "a.pem"; expected an absolute path`,
		"{names: [ui.example], uiCertificate: {names: [a.example, UI.example], " + certificate + "}}":                      `/uiCertificate/names/1: is "UI.example", by which agents reach`,
		"{names: [x], advertiseUrls: ['https://ui.example:1'], uiCertificate: {names: [ui.example], " + certificate + "}}": `/uiCertificate/names/0: is "ui.example", by which agents reach`,
		"{names: [x], controllerUrls: ['https://ui.example'], uiCertificate: {names: [ui.example], " + certificate + "}}":  `/uiCertificate/names/0: is "ui.example", by which agents reach`,
		"uiCertificate: {names: [localhost], " + certificate + "}":                                                         `/uiCertificate/names/0: is "localhost", by which agents reach`,
	} {
		_, err := config.Load(config.Source{File: write(t, file)})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(config.Source{File: write(t, "uiCertificate: {"+certificate+"}"), Flags: map[string]string{"ui-certificate-names": host}}); err == nil || !strings.Contains(err.Error(), "--ui-certificate-names: is ") {
		t.Errorf("the host's name, which is the default of names: %v", err)
	}
}

func TestTheEtcdThatControllersShare(t *testing.T) {
	const one = "endpoints: ['https://etcd.example:2379']"
	for etcd, want := range map[string]string{
		one: "",
		one + ", ca: /ca, cert: /cert, key: /key, prefix: /a/b, username: u, passwordFile: /p": "",
		"endpoints: ['https://[::1]:2379', 'https://10.0.0.1:2379']":                           "",
		"endpoints: ['https://etcd.example']":                                                  `/store/etcd/endpoints/0: is "https://etcd.example"; expected the URL of a member of etcd with its port`,
		"endpoints: ['https://u:p@etcd.example:1/x']":                                          "/store/etcd/endpoints/0: is ",
		"endpoints: ['unix:///etcd:1']":                                                        "/store/etcd/endpoints/0: is ",
		"endpoints: ['https://a:1', 'http://b:1']":                                             "/store/etcd/endpoints: has some URLs with https and some with http",
		"endpoints: ['http://a:1'], ca: /ca":                                                   "/store/etcd/ca: is set, and the endpoints are http",
		one + ", prefix: nodehitch":                                                            `/store/etcd/prefix: is "nodehitch"; expected 1 to 4 names`,
		one + ", prefix: /":                                                                    "/store/etcd/prefix: is ",
		one + ", cert: /cert":                                                                  "/store/etcd: has only one of cert and key",
		one + ", passwordFile: /p":                                                             "/store/etcd: has only one of username and passwordFile",
		one + ", ca: ca.pem":                                                                   `/store/etcd/ca: is "ca.pem"; expected an absolute path`,
		"ca: /ca":                                                                              "/store/etcd: has no endpoints",
	} {
		got, err := config.Load(config.Source{File: write(t, "{store: {etcd: {"+etcd+"}}, replica: {id: c1}}")})
		if want == "" && (err != nil || len(got.Warnings) > 0) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v %v, want %q", etcd, err, got.Warnings, want)
		}
	}
	for endpoint, warned := range map[string]int{"http://127.0.0.1:1": 0, "http://[::1]:1": 0, "http://10.0.0.1:1": 1, "http://localhost:1": 1} {
		got, err := config.Load(config.Source{Flags: map[string]string{"store-etcd-endpoints": endpoint}})
		if err != nil || len(got.Warnings) != warned {
			t.Errorf("%s: %v, %v", endpoint, err, got.Warnings)
		}
	}
}

func TestWhereReplicasReachEachOther(t *testing.T) {
	const etcd = "store: {etcd: {endpoints: ['https://a:1']}}"
	for file, want := range map[string]string{
		"{" + etcd + ", replica: {url: 'https://c1.example:8444', listen: ':8444'}}": "",
		"{" + etcd + ", replica: {url: 'https://c1.example:8444'}}":                  "/replica: has only one of url and listen",
		"{" + etcd + ", replica: {url: 'http://c1:1', listen: ':1'}}":                `/replica/url: is "http://c1:1"`,
		"{" + etcd + ", replica: {url: 'https://c1', listen: ':1'}}":                 `/replica/url: is "https://c1"; expected https, a host and a port`,
		"{" + etcd + ", replica: {url: 'https://c1:1/', listen: ':1'}}":              "/replica/url: is ",
		"{" + etcd + ", replica: {url: 'https://c1:1', listen: '1'}}":                `/replica/listen: is "1"; expected host:port`,
		"replica: {url: 'https://c1:1', listen: ':1'}":                               "/replica: has a url, and the store is not shared",
	} {
		_, err := config.Load(config.Source{File: write(t, file)})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}

func TestTheNameOfAReplica(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	etcd := map[string]string{"store-etcd-endpoints": "https://a:1"}
	if got, err := config.Load(config.Source{Flags: etcd}); err != nil || got.Replica.ID != host {
		t.Errorf("without one it is %q, %v; want the host name %s", got.Replica.ID, err, host)
	}
	if got, err := config.Load(config.Source{}); err != nil || got.Replica.ID != "" {
		t.Errorf("of a controller alone it is %q, %v", got.Replica.ID, err)
	}
	for id, valid := range map[string]bool{"c1": true, "a.b_c-d": true, strings.Repeat("x", 64): true, strings.Repeat("x", 65): false, "-a": false, "a/b": false, "a b": false} {
		etcd["replica-id"] = id
		if _, err := config.Load(config.Source{Flags: etcd}); (err == nil) != valid {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestEverySettingHasAFlagAndAVariable(t *testing.T) {
	leaves := 0
	names(reflect.TypeFor[config.Config](), func(string) { leaves++ })
	if len(config.Settings) != leaves {
		t.Errorf("%d settings for %d fields", len(config.Settings), leaves)
	}
	if v := config.Settings[0].Variable(); v != "NODEHITCH_CONTROLLER_LISTEN" {
		t.Errorf("variable %s", v)
	}
}

// A value out of its range is named where it was given, and not in the file that it wins over.
func TestAValueOutOfItsRangeIsNamedWhereItWasGiven(t *testing.T) {
	path := write(t, "pollSeconds: 1\nlog: {level: loud}\nnames: [ok, under_score]\n")
	for _, c := range []struct {
		flags   map[string]string
		environ []string
		want    string
	}{
		{nil, nil, path + ":/pollSeconds: is 1; expected 5 to 300"},
		{nil, nil, path + `:/log/level: is "loud"; expected debug or info or warn or error`},
		{nil, nil, path + `:/names/1: is "under_score"; expected a DNS name or an IP address`},
		{nil, []string{"NODEHITCH_CONTROLLER_POLL_SECONDS=2"}, "NODEHITCH_CONTROLLER_POLL_SECONDS: is 2; expected 5 to 300"},
		{map[string]string{"poll-seconds": "3"}, []string{"NODEHITCH_CONTROLLER_POLL_SECONDS=2"}, "--poll-seconds: is 3; expected 5 to 300"},
		{map[string]string{"log-level": "shy"}, nil, `--log-level: is "shy"; expected debug`},
	} {
		_, err := config.Load(config.Source{File: path, Flags: c.flags, Environ: c.environ})
		if err == nil || !strings.Contains(err.Error(), "\n"+c.want) {
			t.Errorf("%v %v: %q is missing in:\n%v", c.flags, c.environ, c.want, err)
		}
	}
}

func TestEverySettingHasItsPlaceInTheFile(t *testing.T) {
	places := map[string]bool{}
	var walk func(reflect.Type, string)
	walk = func(s reflect.Type, at string) {
		for f := range s.Fields() {
			switch name := f.Tag.Get("json"); {
			case name == "-":
			case f.Type.Kind() == reflect.Struct:
				walk(f.Type, at+"/"+name)
			default:
				places[at+"/"+name] = true
			}
		}
	}
	walk(reflect.TypeFor[config.Config](), "")
	for _, s := range config.Settings {
		if !places[s.Pointer()] {
			t.Errorf("--%s is said to be at %s, where nothing is", s.Flag, s.Pointer())
		}
	}
}

func TestEveryFaultOfEverySourceAtOnce(t *testing.T) {
	path := write(t, "Listen: x\nmaxFileBytes: many\nreplica: {id: -}\nnams: [a]\nuiCertificate: {names: [a], key: /k, file: 5}\n")
	_, err := config.Load(config.Source{File: path,
		Environ: []string{"NODEHITCH_CONTROLLER_POLL_SECONDS=soon", "NODEHITCH_CONTROLLER_ATTESTATION_MODE=nova", "NODEHITCH_CONTROLLER_METRICS_LISTEN=8643"},
		Flags: map[string]string{"converge-seconds": "1", "log-level": "loud", "socket": "nodehitch.sock",
			"names": "ok,under_score", "advertise-urls": "http://a", "ui-certificate-names": "ok"},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		path + ":/Listen: is not known here; did you mean listen?",
		path + ":/maxFileBytes: found a string",
		path + `:/replica/id: is "-"; expected 1 to 64 letters`,
		path + ":/nams: is not known here; did you mean names?",
		path + ":/uiCertificate/file: found a number, expected a string",
		`--ui-certificate-names: is "ok", by which agents reach the controller`,
		`NODEHITCH_CONTROLLER_POLL_SECONDS: is "soon"; expected an integer`,
		"NODEHITCH_CONTROLLER_ATTESTATION_MODE: is nova, but no cloud is configured",
		`NODEHITCH_CONTROLLER_METRICS_LISTEN: is "8643"; expected host:port`,
		"--converge-seconds: is 1; expected 10 to 86400",
		`--log-level: is "loud"`,
		`--socket: is "nodehitch.sock"; expected an absolute path`,
		`--names: is "under_score"`,
		`--advertise-urls: is "http://a"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	if n := strings.Count(err.Error(), "\n"); n != 14 {
		t.Errorf("%d faults, expected 14:\n%v", n, err)
	}
}

func TestAFaultOfTheWholeFileOrOfOneValueReadsWell(t *testing.T) {
	for file, want := range map[string]string{
		"a: [":                        "controller.yaml: ",
		"- names":                     "controller.yaml: ",
		"{attestation: {mode: loud}}": `/attestation/mode: is "loud"; expected token or nova`,
		// What would be silently left out.
		"{attestation: {sourceAddress: true}}":          "/attestation/sourceAddress: asks for something that only Nova knows",
		"{attestation: {mode: token, nonce: required}}": "/attestation/nonce: asks for something that only Nova knows",
	} {
		_, err := config.Load(config.Source{File: write(t, file)})
		if err == nil || !strings.Contains(err.Error()+"\n", want) || strings.Contains(err.Error(), "::") || strings.HasSuffix(err.Error(), "or ") {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}

func TestAMissingFileIsNamed(t *testing.T) {
	_, err := config.Load(config.Source{File: "/nonexistent/controller.yaml"})
	if err == nil || !strings.Contains(err.Error(), "/nonexistent/controller.yaml: cannot be read") {
		t.Error(err)
	}
}

func TestAVariableThatSetsNothingIsAWarning(t *testing.T) {
	got, err := config.Load(config.Source{Environ: []string{"NODEHITCH_CONTROLLER_LISTN=:1"}})
	if err != nil || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "LISTN sets nothing; did you mean NODEHITCH_CONTROLLER_LISTEN?") {
		t.Error(got.Warnings, err)
	}
}

func TestTheKeyIsASystemdCredentialWhereThereIsOne(t *testing.T) {
	for name, test := range map[string]struct {
		make bool
		flag string
		want string
	}{
		"none": {want: "/var/lib/nodehitch/controller/seal.key"},
		"one":  {make: true, want: "nodehitch-seal-key"},
		"set":  {make: true, flag: "/k", want: "/k"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			key := filepath.Join(dir, "nodehitch-seal-key")
			if test.make {
				if err := os.WriteFile(key, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := config.Load(config.Source{Environ: []string{"CREDENTIALS_DIRECTORY=" + dir}, Flags: map[string]string{"seal-key-file": test.flag}})
			if err != nil || strings.TrimPrefix(got.SealKeyFile+got.KeyCredential, dir+"/") != test.want {
				t.Errorf("got %s, %v; want %s", got.SealKeyFile, err, test.want)
			}
		})
	}
}
