package params_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/shared/params"
)

func TestRedactTakesSecretsAndNothingElse(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"passwords at any depth, order and spacing kept": {
			body: "{ \"b\":1,\n\t\"password\" : \"hunter2\", \"a\": [ {\"ssh_password\":\"hunter2\"} ]\n}\n",
			want: "{ \"b\":1,\n\t\"password\" : \"[redacted]\", \"a\": [ {\"ssh_password\":\"[redacted]\"} ]\n}\n",
		},
		"unknown attributes by their names": {
			body: `{"joinToken":"hunter2","API-Key":"hunter2","clientSecret":"hunter2","bearer_token":"hunter2","userPasswd":"hunter2","Pass":"hunter2","bypass":"way","client-key-data":"hunter2","tokens":["hunter2","hunter2"]}`,
			want: `{"joinToken":"[redacted]","API-Key":"[redacted]","clientSecret":"[redacted]","bearer_token":"[redacted]","userPasswd":"[redacted]","Pass":"[redacted]","bypass":"way","client-key-data":"[redacted]","tokens":"[redacted]"}`,
		},
		"other names of secrets": {
			body: `{"authorization":"hunter2","snmp_community":"hunter2","key":"hunter2","encryptionKey":"hunter2","sim-pin":7,"SNMPKey":{"a":["hunter2"]},"wifi_psk":"hunter2"}`,
			want: `{"authorization":"[redacted]","snmp_community":"[redacted]","key":"[redacted]","encryptionKey":"[redacted]","sim-pin":"[redacted]","SNMPKey":"[redacted]","wifi_psk":"[redacted]"}`,
		},
		"names that only look alike": {
			body: `{"key_name":"a","keypair":"b","authUrl":"http://keystone/v3","ssh_public_key":"c","topologyKey":"d","pinning":"e","authority":"f"}`,
			want: `{"key_name":"a","keypair":"b","authUrl":"http://keystone/v3","ssh_public_key":"c","topologyKey":"d","pinning":"e","authority":"f"}`,
		},
		"keys in query strings": {
			body: `{"x":["https://h/p?a=1&api%5Fkey=hunter2&b=2#c","see https://h/?X-Amz-Signature=hunter2;token=hunter2 and more","/v1?keyname=a&password=","https://u:hunter2@h/?key=hunter2"]}`,
			want: `{"x":["https://h/p?a=1\u0026api%5Fkey=[redacted]\u0026b=2#c","see https://h/?X-Amz-Signature=[redacted];token=[redacted] and more","/v1?keyname=a&password=","https://[redacted]@h/?key=[redacted]"]}`,
		},
		"a VIM's access": {
			body: `{"vimConnectionInfo":[{"id":"i","accessInfo":{"username":"nfv","password":"hunter2","authUrl":"http://keystone/v3"}}]}`,
			want: `{"vimConnectionInfo":[{"id":"i","accessInfo":{"username":"nfv","password":"[redacted]","authUrl":"http://keystone/v3"}}]}`,
		},
		"passwords that are not texts": {
			body: `{"password":1234,"secret":{"a":"hunter2"},"token":[["hunter2"]],"password":true,"password":null,"password":""}`,
			want: `{"password":"[redacted]","secret":"[redacted]","token":"[redacted]","password":true,"password":null,"password":""}`,
		},
		"both of a name given twice": {
			body: `{"password":"hunter2","password":"hunter2"}`,
			want: `{"password":"[redacted]","password":"[redacted]"}`,
		},
		"the userinfo of proxies": {
			body: `{"http_proxy":"http://user1:hunter2@host1:port1","https_proxy":"user:hun/ter2@x@host2:1","no_proxy":"10.0.0.1,a@b","HTTPProxy":"http://host"}`,
			want: `{"http_proxy":"http://[redacted]@host1:port1","https_proxy":"[redacted]@host2:1","no_proxy":"10.0.0.1,a@b","HTTPProxy":"http://host"}`,
		},
		"the userinfo of any URL": {
			body: `{"x":["see https://u:hunter2@h/p and https://v:hun/ter2@w/","mail a@b","https://h/p"]}`,
			want: `{"x":["see https://[redacted]@h/p and https://[redacted]@w/","mail a@b","https://h/p"]}`,
		},
		"escaped texts": {
			body: `{"pass\u0077ord":"hunter2","http_proxy":"http:\/\/u:hunter2\u0040h","x":"\ud83d\ude00"}`,
			want: `{"pass\u0077ord":"[redacted]","http_proxy":"http://[redacted]@h","x":"\ud83d\ude00"}`,
		},
		"private keys": {
			body: `{"cert":"-----BEGIN EC PRIVATE KEY-----\nhunter2"}`,
			want: `{"cert":"[redacted]"}`,
		},
		"what was redacted before": {
			body: `{"password":"[redacted]","http_proxy":"http://[redacted]@h"}`,
			want: `{"password":"[redacted]","http_proxy":"http://[redacted]@h"}`,
		},
		"a lone text":        {body: `"http://u:hunter2@h"`, want: `"http://[redacted]@h"`},
		"what is not JSON":   {body: `{"password":"hunter2"`, want: `"[redacted]"`},
		"nothing":            {body: ``, want: `"[redacted]"`},
		"what is too deep":   {body: strings.Repeat("[", 200) + `"hunter2"` + strings.Repeat("]", 200), want: `"[redacted]"`},
		"what has no secret": {body: `{"a":[1e5,null,{}],"username":"u"}`, want: `{"a":[1e5,null,{}],"username":"u"}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := string(params.Redact(json.RawMessage(test.body)))
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if strings.Contains(got, "hunter2") || strings.Contains(got, "ter2") {
				t.Error("a secret is left")
			}
			if again := string(params.Redact(json.RawMessage(got))); again != got {
				t.Errorf("a second time it becomes %s", again)
			}
		})
	}
}

// TestNoSecretOfTheSamplesIsPrinted formats and redacts the specifications' bodies,
// with their passwords made recognisable first.
func TestNoSecretOfTheSamplesIsPrinted(t *testing.T) {
	for _, file := range bodies(t, "testdata/*.json", 3) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			body := []byte(strings.NewReplacer(
				`assword": "ubuntu"`, `assword": "hunter2"`, `assword": "user01"`, `assword": "hunter2"`,
				":password1@", ":hunter2@", ":password2@", ":hunter2@").Replace(string(read(t, file))))
			if n := len(params.Secrets(body)); n < 1 {
				t.Fatalf("found %d secrets", n)
			}
			request, report := params.ParseRequest(body)
			if request == nil {
				t.Fatal(report.Faults)
			}
			asJSON, err := json.Marshal(request.Params)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{
				string(params.Redact(body)), string(asJSON), request.String(), report.Warnings.Error(),
			} {
				for _, secret := range append(params.Secrets(body), "hunter2") {
					if strings.Contains(text, secret) {
						t.Errorf("%q is in %s", secret, text)
					}
				}
			}
		})
	}
}

func TestSecretsListsWhatRedactTakes(t *testing.T) {
	got := params.Secrets(json.RawMessage(`{"password":"a","n":{"token":["b",{"x":7}]},"http_proxy":"http://u:c@h","y":"https://d:e@h","z":"f","q":"https://g:h@i/?key=j&k=l"}`))
	if want := "a b 7 u:c c d:e e j g:h h"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", strings.Join(got, " "), want)
	}
}
