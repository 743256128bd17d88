package document_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nodehitch/nodehitch/agent/document"
	"github.com/nodehitch/nodehitch/shared/fault"
)

const digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

const goodRegistries = `{
  "apiVersion": "nodehitch/v1", "epoch": 1, "generation": 3, "role": "worker",
  "registries": [
    {"server": "192.168.0.10:5000", "scheme": "http"},
    {"server": "[fd00::10]:5000", "scheme": "http", "username": "Jörg", "password": "grüße: \"1\" \\\n{\r\n\t}"},
    {"server": "registry.example.com", "scheme": "https", "username": "user01", "password": "user01",
     "caCertificate": {"sha256": "` + digest + `", "sizeBytes": 1200},
     "hostsEntry": {"address": "192.168.0.20", "names": ["registry.example.com", "registry"]}}
  ]
}`

const goodRegistry = `{
  "apiVersion": "nodehitch/v1", "epoch": 1, "generation": 3, "role": "registry",
  "registry": {"image": {"reference": "registry:latest"}, "port": 5000, "dataDirectory": "/home/ubuntu/registry"}
}`

func TestGoodRegistries(t *testing.T) {
	doc, err := document.Decode([]byte(goodRegistries))
	if err != nil || len(doc.Registries) != 3 {
		t.Errorf("got %+v, %v", doc, err)
	}
	if _, err := document.Decode([]byte(goodRegistry)); err != nil {
		t.Error(err)
	}
}

func TestFaultsOfRegistries(t *testing.T) {
	file := `"image": {"file": {"sha256": "` + digest + `", "sizeBytes": 23000000}}`
	cases := map[string]struct{ old, new, pointer string }{
		"a server with a scheme":      {"192.168.0.10:5000", "http://192.168.0.10:5000", "/registries/0/server"},
		"a server with a path":        {"192.168.0.10:5000", "../../etc", "/registries/0/server"},
		"a server that is no address": {"192.168.0.10:5000", "192.168.0.256:5000", "/registries/0/server"},
		"a server twice":              {"192.168.0.10:5000", "REGISTRY.example.com", "/registries/2/server"},
		"another scheme":              {`"scheme": "http"}`, `"scheme": "ftp"}`, "/registries/0/scheme"},
		"a user with a colon":         {`"username": "user01"`, `"username": "user:01"`, "/registries/2/username"},
		"a user on two lines":         {`"username": "user01"`, `"username": "user\n01"`, "/registries/2/username"},
		"a password with a NUL":       {`"password": "user01"`, `"password": "secret\u000001"`, "/registries/2/password"},
		"a user without a password":   {`"password": "user01",`, ``, "/registries/2"},
		"a digest with a path":        {digest, "../../../../etc/passwd", "/registries/2/caCertificate/sha256"},
		"a digest in upper case":      {digest, strings.ToUpper(digest), "/registries/2/caCertificate/sha256"},
		"a negative size":             {"1200", "-1", "/registries/2/caCertificate/sizeBytes"},
		"a hosts entry on two lines":  {`"registry"]`, `"registry\n10.0.0.1 www"]`, "/registries/2/hostsEntry/names/1"},
		"two names in one":            {`"registry"]`, `"registry www"]`, "/registries/2/hostsEntry/names/1"},
		"localhost elsewhere":         {`"registry"]`, `"localhost"]`, "/registries/2/hostsEntry/names/1"},
		"no names":                    {`["registry.example.com", "registry"]`, `[]`, "/registries/2/hostsEntry/names"},
		"a name for an address":       {`"192.168.0.20"`, `"example.com"`, "/registries/2/hostsEntry/address"},
		"an image of both kinds":      {`"reference": "registry:latest"`, file[len(`"image": {`):len(file)-1] + `, "reference": "registry"`, "/registry/image"},
		"no image":                    {`"reference": "registry:latest"`, ``, "/registry/image"},
		"an image with a flag":        {"registry:latest", "--privileged", "/registry/image/reference"},
		"an image in upper case":      {"registry:latest", "Registry:latest", "/registry/image/reference"},
		"an image with two tags":      {"registry:latest", "registry:latest:2", "/registry/image/reference"},
		"port 0":                      {"5000, \"data", "0, \"data", "/registry/port"},
		"a port above":                {"5000, \"data", "65536, \"data", "/registry/port"},
		"a directory that is none":    {"/home/ubuntu/registry", "registry", "/registry/dataDirectory"},
		"a directory with options":    {"/home/ubuntu/registry", "/srv:/etc:rw", "/registry/dataDirectory"},
		"a directory of the system":   {"/home/ubuntu/registry", "/etc", "/registry/dataDirectory"},
		"all home directories":        {"/home/ubuntu/registry", "/home", "/registry/dataDirectory"},
		"the engine's own directory":  {"/home/ubuntu/registry", "/var/lib/docker/x", "/registry/dataDirectory"},
		"keys of a user":              {"/home/ubuntu/registry", "/home/ubuntu/.ssh", "/registry/dataDirectory"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			text := goodRegistries
			if strings.HasPrefix(c.pointer, "/registry/") {
				text = goodRegistry
			}
			changed := strings.Replace(text, c.old, c.new, 1)
			if changed == text {
				t.Fatal("the case changes nothing")
			}
			_, err := document.Decode([]byte(changed))
			var faults fault.List
			if !errors.As(err, &faults) || faults[0].Pointer != c.pointer || len(faults) != 1 {
				t.Errorf("got %v, want one fault at %s", err, c.pointer)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the fault repeats the password: %v", err)
			}
		})
	}
}

func TestImages(t *testing.T) {
	for _, image := range []string{
		"registry", "registry:2", "library/registry:2.8.3", "registry@sha256:" + digest, "registry:2@sha256:" + digest,
		"docker.io/library/registry:latest", "10.0.0.1:5000/a/b__c-d.e:T_1.x", "[fd00::1]:5000/registry",
	} {
		if _, err := document.Decode([]byte(strings.Replace(goodRegistry, "registry:latest", image, 1))); err != nil {
			t.Errorf("%s: %v", image, err)
		}
	}
}
