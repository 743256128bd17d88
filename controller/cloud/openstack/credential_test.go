package openstack

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/controller/cloud/openstack/openstacktest"
	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/client/testca"
	"github.com/nodehitch/nodehitch/shared/fault"
)

const secret = "hunter2-the-secret"

func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAnEntryOfACloudsFile(t *testing.T) {
	for _, variable := range []string{"OS_CLOUD", "OS_REGION_NAME", "OS_INTERFACE", "OS_CACERT", "OS_PASSWORD"} {
		t.Setenv(variable, "of the environment, and not to be used")
	}
	user := credential{AuthURL: "https://k:5000/v3", User: "u", Password: secret, UserDomainID: "default", Project: "p", ProjectDomainID: "default"}
	with := func(change func(*credential)) *credential {
		c := user
		change(&c)
		return &c
	}
	const base = `auth_url: "https://k:5000/v3", username: u, password: ` + secret + `, project_name: p`
	for name, c := range map[string]struct {
		entry, secure string
		want          *credential
		faults        []string
	}{
		"user and password":           {entry: `{auth: {` + base + `}}`, want: &user},
		"the password in secure.yaml": {entry: `{auth: {auth_url: "https://k:5000/v3", username: u, project_name: p, password: of yore}}`, secure: `{auth: {password: ` + secret + `}}`, want: &user},
		"region, interface, domains": {entry: `{auth: {` + base + `, user_domain_name: U, project_domain_id: P, project_domain_name: Q}, region_name: R, interface: internal}`,
			want: with(func(c *credential) {
				c.UserDomainID, c.UserDomain, c.ProjectDomainID, c.Region, c.Interface = "", "U", "P", "R", "internal"
			})},
		"a domain for both": {entry: `{auth: {` + base + `, domain_name: D}, endpoint_type: publicURL, verify: false}`,
			want: with(func(c *credential) {
				c.UserDomainID, c.UserDomain, c.ProjectDomainID, c.ProjectDomainName, c.Interface, c.Unverified = "", "D", "", "D", "public", true
			})},
		"an application credential": {entry: `{auth_type: v3applicationcredential, auth: {auth_url: "https://k:5000/v3", application_credential_id: i, application_credential_secret: ` + secret + `}}`,
			want: &credential{AuthURL: "https://k:5000/v3", AppID: "i", AppSecret: secret}},
		"one by name": {entry: `{auth: {auth_url: "https://k:5000/v3", application_credential_name: name, application_credential_secret: ` + secret + `, user_id: i}}`,
			want: &credential{AuthURL: "https://k:5000/v3", AppName: "name", AppSecret: secret, UserID: "i"}},
		"nothing":               {entry: `{}`, faults: []string{"/auth/auth_url: is missing; expected Keystone's URL", "/auth/username: is missing", "/auth/password: is missing", "/auth/project_name: is missing"}},
		"no auth at all":        {entry: `{region_name: R}`, faults: []string{"/auth/auth_url: is missing"}},
		"not an object":         {entry: `7`, faults: []string{"expected an object"}},
		"auth is a list":        {entry: `{auth: [1]}`, faults: []string{"/auth: is a list; expected an object"}},
		"a number for a text":   {entry: `{auth: {` + base + `, project_id: 1234}}`, faults: []string{"/auth/project_id: is a number; expected a text (a text"}},
		"a text for a yes":      {entry: `{auth: {` + base + `}, verify: "no"}`, faults: []string{"/verify: is a text; expected true or false"}},
		"no URL":                {entry: `{auth: {` + strings.Replace(base, "https://k:5000/v3", "k:5000", 1) + `}}`, faults: []string{"/auth/auth_url: is no URL of a server"}},
		"a secret in the URL":   {entry: `{auth: {` + strings.Replace(base, "https://", "https://u:"+secret+"@", 1) + `}}`, faults: []string{"/auth/auth_url: holds a user name"}},
		"version 2":             {entry: `{auth: {` + strings.Replace(base, "v3", "v2.0", 1) + `}}`, faults: []string{"/auth/auth_url: is version 2 of Keystone"}},
		"an interface":          {entry: `{auth: {` + base + `}, interface: outside}`, faults: []string{"/interface: expected public, internal or admin"}},
		"no secret":             {entry: `{auth: {auth_url: "https://k", application_credential_id: i}}`, faults: []string{"/auth/application_credential_secret: is missing"}},
		"a secret of nothing":   {entry: `{auth: {auth_url: "https://k", application_credential_secret: ` + secret + `}}`, faults: []string{"/auth/application_credential_id: is missing"}},
		"a name without a user": {entry: `{auth: {auth_url: "https://k", application_credential_name: i, application_credential_secret: ` + secret + `}}`, faults: []string{"/auth/username: is missing"}},
		"what is not supported": {entry: `{profile: vexxhost, auth_type: v3oidcpassword, cert: /c, auth: {` + base + `, token: ` + secret + `, system_scope: all}}`,
			faults: []string{"/profile: is not supported", "/auth/token: is not supported", "/auth/system_scope: is not supported", `/auth_type: is "v3oidcpassword"; expected password`, "/cert: expected cert and key both"}},
		"a relative path":       {entry: `{cacert: ca.pem, auth: {` + base + `}}`, faults: []string{`cacert of the cloud is "ca.pem"; expected an absolute path`}},
		"a file that is not":    {entry: `{cacert: /nowhere/ca.pem, auth: {` + base + `}}`, faults: []string{"reading cacert of the cloud: open /nowhere/ca.pem"}},
		"secure.yaml is broken": {entry: `{auth: {` + base + `}}`, secure: `{auth: {password: ` + secret, faults: []string{"secure.yaml is no clouds.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := writeFile(t, dir, "clouds.yaml", "clouds:\n  other: {}\n  mine: "+c.entry+"\n")
			if c.secure != "" {
				writeFile(t, dir, "secure.yaml", "clouds:\n  mine: "+c.secure+"\n")
			}
			got, err := readEntry(file, "mine")
			if c.want != nil {
				check(t, got, err, *c.want)
				return
			}
			wantAll(t, err, c.faults)
		})
	}
}

func wantAll(t *testing.T, err error, parts []string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("no %q in: %v", part, err)
		}
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("the error contains the secret: %v", err)
	}
}

func TestACloudsFileThatDoesNotServe(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, says string }{
		"no such entry": {"clouds: {a: {}, b: {}}", `has no cloud "mine"; it has a, b`},
		"empty":         {"", `has no cloud "mine"; it has none`},
		"no YAML":       {"clouds: {mine: {password: " + secret, "is no clouds.yaml; expected YAML"},
		"a list":        {"clouds: [" + secret + "]", "is no clouds.yaml; expected YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readEntry(writeFile(t, dir, "clouds.yaml", c.text), "mine")
			wantAll(t, err, []string{c.says})
		})
	}
	_, err := readEntry(filepath.Join(dir, "none.yaml"), "mine")
	wantAll(t, err, []string{"reading the credentials of clouds", "none.yaml"})
	if _, err := New(Options{CloudsFile: filepath.Join(dir, "none.yaml"), Cloud: "mine"}); err == nil {
		t.Error("the observer was not told at the start")
	}
}

func TestCertificatesAndKeysThatAreNone(t *testing.T) {
	for name, c := range map[string]credential{
		"cacert of the cloud holds no certificate": {CA: secret},
		"cert and key of the cloud are no":         {ClientCertificate: secret, ClientKey: secret},
	} {
		_, err := newCloud(c, "the cloud", Options{})
		wantAll(t, err, []string{name})
	}
}

func TestEachCertificateOfTheCloudIsTrusted(t *testing.T) {
	want, err := x509.SystemCertPool()
	if err != nil {
		want = x509.NewCertPool()
	}
	text := []byte("\ufeff")
	for _, name := range []string{"a", "b", "c"} {
		one := testca.Root(t, name).PEM()
		want.AppendCertsFromPEM(one)
		text = append(bytes.TrimSpace(text), one...)
	}
	transport, err := connections(credential{CA: string(text)})
	if err != nil || !transport.TLSClientConfig.RootCAs.Equal(want) {
		t.Errorf("not each of the three certificates that are joined is trusted (%v)", err)
	}
	if _, err := connections(credential{CA: string(text[:len(text)-40])}); err == nil || !strings.Contains(err.Error(), "cacert of the cloud has a PEM block, number 3 in line ") {
		t.Errorf("the last is cut off: %v", err)
	}
}

const entryV3 = `"vimType":"ETSINFV.OPENSTACK_KEYSTONE.V_3","interfaceInfo":{"endpoint":"https://k/identity/v3"}`
const userV3 = `"username":"u","password":"` + secret + `","project":"p","projectDomain":"P","userDomain":"U","region":"R"`

func TestACredentialInVimConnectionInfo(t *testing.T) {
	certificate := openstacktest.StartTLS(t).CACert()
	der, _ := pem.Decode([]byte(certificate))
	quoted, err := json.Marshal(certificate)
	if err != nil {
		t.Fatal(err)
	}
	user := credential{AuthURL: "https://k/identity/v3", User: "u", Password: secret, Project: "p", ProjectDomainName: "P", UserDomain: "U", Region: "R"}
	with := func(change func(*credential)) *credential {
		c := user
		change(&c)
		return &c
	}
	trusting := func(list string) string {
		return `[{"vimType":"openstack","interfaceInfo":{"endpoint":"https://k/identity/v3","trustedCertificates":` + list + `},"accessInfo":{` + userV3 + `}}]`
	}
	for name, c := range map[string]struct {
		text   string
		want   *credential
		none   bool
		faults []string
	}{
		"a list":          {text: `[{"id":"i",` + entryV3 + `,"accessInfo":{` + userV3 + `}}]`, want: &user},
		"an object":       {text: `{"vim1":{` + entryV3 + `,"accessInfo":{` + userV3 + `}}}`, want: &user},
		"beside another":  {text: `[{"vimType":"ETSINFV.KUBERNETES.V_1","accessInfo":{"bearer_token":"t"}},{` + entryV3 + `,"accessInfo":{` + userV3 + `}}]`, want: &user},
		"the same twice":  {text: `{"a":{` + entryV3 + `,"accessInfo":{` + userV3 + `}},"b":{` + entryV3 + `,"accessInfo":{` + userV3 + `}}}`, want: &user},
		"as Tacker makes": {text: `{"v":{"vimType":"ETSINFV.OPENSTACK_KEYSTONE.V_3","interfaceInfo":{"endpoint":"https://k/identity/v3","skipCertificateHostnameCheck":true,"skipCertificateVerification":true},"accessInfo":{` + userV3 + `}}}`, want: &user},
		"the older names": {text: `[{"vimType":"openstack","accessInfo":{"auth_url":"https://k/identity/v3","username":"u","password":"` + secret + `","project_name":"p","project_domain_name":"P","user_domain_name":"U","region":"R"}}]`, want: &user},
		"ids before names": {text: `[{` + entryV3 + `,"accessInfo":{` + userV3 + `,"projectId":"pi","userId":"ui","userDomainId":"x","projectDomainId":"pd"}}]`,
			want: with(func(c *credential) {
				c.User, c.UserDomain, c.UserID, c.ProjectID, c.ProjectDomainName, c.ProjectDomainID = "", "", "ui", "pi", "", "pd"
			})},
		"an application credential": {text: `[{` + entryV3 + `,"accessInfo":{"applicationCredentialId":"i","applicationCredentialSecret":"` + secret + `","region":null}}]`,
			want: &credential{AuthURL: "https://k/identity/v3", AppID: "i", AppSecret: secret}},
		"a certificate":            {text: trusting(string(quoted)), want: with(func(c *credential) { c.CA = certificate + "\n" })},
		"a list of base64 of PEM":  {text: trusting(`["` + base64.StdEncoding.EncodeToString([]byte(certificate)) + `"]`), want: with(func(c *credential) { c.CA = certificate + "\n" })},
		"a list of base64 of DER":  {text: trusting(`["` + base64.StdEncoding.EncodeToString(der.Bytes) + `"]`), want: with(func(c *credential) { c.CA = certificate })},
		"no certificates":          {text: trusting(`""`), want: &user},
		"none":                     {text: `[]`, none: true},
		"null":                     {text: `null`, none: true},
		"absent":                   {text: ``, none: true},
		"one that Tacker knows":    {text: `[{"id":"i","vimId":"v","vimType":"openstack"}]`, none: true},
		"another kind":             {text: `[{"vimType":"kubernetes","accessInfo":{"password":"` + secret + `"}}]`, none: true},
		"no list":                  {text: `"` + secret + `"`, faults: []string{"/vim: expected a list of VimConnectionInfo"}},
		"a list of texts":          {text: `["` + secret + `"]`, faults: []string{"/vim/0: expected an object"}},
		"accessInfo is a text":     {text: `[{` + entryV3 + `,"accessInfo":"` + secret + `"}]`, faults: []string{"/vim/0/accessInfo: expected an object"}},
		"a number for a password":  {text: `[{` + entryV3 + `,"accessInfo":{"username":"u","project":"p","password":7}}]`, faults: []string{"/vim/0/accessInfo/password: expected a text"}},
		"no password":              {text: `{"v/1":{` + entryV3 + `,"accessInfo":{"username":"u"}}}`, faults: []string{"/vim/v~11/accessInfo/password: is missing", "/vim/v~11/accessInfo/project: is missing"}},
		"no URL":                   {text: `[{"vimType":"openstack","accessInfo":{` + userV3 + `}}]`, faults: []string{"/vim/0/interfaceInfo/endpoint: is missing; expected Keystone's URL"}},
		"a secret in the URL":      {text: `[{"vimType":"openstack","interfaceInfo":{"endpoint":"http://u:` + secret + `@k/"},"accessInfo":{` + userV3 + `}}]`, faults: []string{"/vim/0/interfaceInfo/endpoint: holds a user name"}},
		"what is no certificate":   {text: trusting(`["` + secret + `"]`), faults: []string{"/vim/0/interfaceInfo/trustedCertificates: certificate 1 is neither PEM nor base64 of it"}},
		"a number for certificate": {text: trusting(`7`), faults: []string{"/vim/0/interfaceInfo/trustedCertificates: expected a certificate"}},
		"two clouds": {text: `[{` + entryV3 + `,"accessInfo":{` + userV3 + `}},{` + entryV3 + `,"accessInfo":{` + userV3 + `,"region":"S"}}]`,
			faults: []string{"/vim: names several clouds (/vim/0, /vim/1)"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := fromVIM(json.RawMessage(c.text), fault.Root.Key("vim"))
			switch {
			case c.none:
				if !errors.Is(err, errNoVIM) {
					t.Errorf("err %v, want none", err)
				}
			case c.want != nil:
				check(t, got, err, *c.want)
			default:
				wantAll(t, err, c.faults)
			}
		})
	}
}

func FuzzVIM(f *testing.F) {
	f.Add([]byte(`[{` + entryV3 + `,"accessInfo":{` + userV3 + `}}]`))
	f.Add([]byte(`{"vim1":{"vimType":"openstack","accessInfo":{"auth_url":"http://k","applicationCredentialId":"i","applicationCredentialSecret":"s"}}}`))
	f.Add([]byte(`[{"vimType":"openstack","interfaceInfo":{"trustedCertificates":["aGFsbG8="]},"accessInfo":{"username":7}}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := fromVIM(text, fault.Root)
		again, errAgain := fromVIM(text, fault.Root)
		if c != again || fmt.Sprint(err) != fmt.Sprint(errAgain) {
			t.Errorf("two readings differ: %v and %v, %v and %v", c, again, err, errAgain)
		}
		if err != nil {
			return
		}
		if badAuthURL(c.AuthURL) != "" || c.Unverified || c.AppSecret == "" && (c.Password == "" || c.Project+c.ProjectID == "") {
			t.Errorf("taken, and of no use: %+v", c)
		}
		if _, err := newCloud(c, "the cloud", Options{Timeout: time.Second}); err != nil {
			t.Errorf("taken, and no cloud can be made of it: %v", err)
		}
		if _, err := c.auth().ToTokenV3CreateMap(map[string]any{}); err != nil {
			t.Errorf("taken, and not a login: %v", err)
		}
	})
}

func TestWhichCloudAnInstanceHas(t *testing.T) {
	mine, theirs := openstacktest.Start(t), openstacktest.Start(t)
	options := Options{CloudsFile: mine.CloudsFile(t), Cloud: "fake", UseVIM: true, Timeout: 10 * time.Second, Log: slog.New(slog.DiscardHandler)}
	clouds, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	of := func(vim json.RawMessage) *Cloud {
		t.Helper()
		c, err := clouds.For(t.Context(), vim)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Servers(t.Context()); err != nil {
			t.Fatal(err)
		}
		return c
	}
	first, again := of(theirs.VIM()), of(theirs.VIM())
	if of(nil) != of(json.RawMessage(`[]`)) || first != again || of(nil) == first {
		t.Error("a credential has not one Cloud")
	}
	if a, b := mine.Calls()[openstacktest.Login], theirs.Calls()[openstacktest.Login]; a != 1 || b != 1 {
		t.Errorf("%d and %d logins, want one each", a, b)
	}
	var problem *api.Problem
	if _, err := clouds.For(t.Context(), json.RawMessage(`[{`+entryV3+`,"accessInfo":{"username":"u"}}]`)); !errors.As(err, &problem) ||
		problem.Type != api.ProblemInvalid || problem.InvalidParams[0].Pointer != "/vimConnectionInfo/0/accessInfo/password" {
		t.Errorf("err %v", err)
	}
	options.UseVIM, options.Cloud = false, ""
	if clouds, err = New(options); err != nil {
		t.Fatal(err)
	}
	if _, err := clouds.For(t.Context(), theirs.VIM()); !errors.Is(err, ErrNoCloud) {
		t.Errorf("err %v, want ErrNoCloud", err)
	}
}

func TestTheLeastUsedCredentialIsDropped(t *testing.T) {
	clouds, err := New(Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	made := func(i int) *Cloud {
		c, err := clouds.of(credential{AuthURL: "http://k", Password: fmt.Sprint(i)}, "a cloud")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	kept, unused := made(0), made(1)
	for i := 2; i <= mostKept; i++ {
		made(0)
		made(i)
	}
	if len(clouds.kept) != mostKept {
		t.Errorf("%d are kept, want %d", len(clouds.kept), mostKept)
	}
	if made(0) != kept || made(1) == unused {
		t.Error("another one was dropped than the unused one")
	}
}

// A Cloud that is printed by accident shows no secret.
func TestACloudPrintsAsItsName(t *testing.T) {
	cloud, err := newCloud(credential{AuthURL: "https://k", User: "u", Password: secret}, "the cloud", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("json", "cloud", cloud)
	slog.New(slog.NewTextHandler(&log, nil)).Info("text", "cloud", cloud)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		fmt.Fprintf(&log, verb, cloud)
	}
	if text := log.String(); strings.Contains(text, secret) || strings.Count(text, "the cloud") != 7 {
		t.Errorf("printed:\n%s", text)
	}
}

func TestAFingerprintDependsOnEachSecretAndHoldsNone(t *testing.T) {
	clouds, err := New(Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	key := clouds.key
	a := credential{AuthURL: "https://k", User: "u", Password: secret}
	b := a
	b.Password += "!"
	if a.fingerprint(key) == b.fingerprint(key) || a.fingerprint(key) == a.fingerprint([]byte("another key")) {
		t.Error("two credentials have one fingerprint, or one without the key")
	}
	if diff := cmp.Diff(a.fingerprint(key), a.fingerprint(key)); diff != "" {
		t.Error(diff)
	}
}
