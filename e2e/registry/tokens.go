package registry

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
)

// Tokens is a token service as the Distribution project specifies it
// (https://distribution.github.io/distribution/spec/auth/): registries that name it
// send clients there, and it gives those with a login what they ask for.
type Tokens struct {
	// Realm is its URL.
	Realm string

	users  map[string]string
	key    *ecdsa.PrivateKey
	signer []byte // its certificate, DER
	pem    []byte
}

const (
	tokenService = "the test's registry"
	tokenIssuer  = "the test's token service"
)

// OpenTokens starts a token service at an address of the lab, with TLS for the host
// name that is in its URL. It ends with the test.
func OpenTokens(t testing.TB, l *lab.Lab, address, name string, pair Pair, users map[string]string) *Tokens {
	t.Helper()
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := l.Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(address)
	s := &Tokens{Realm: "https://" + net.JoinHostPort(name, port) + "/token", users: users}
	var parsed *x509.Certificate
	parsed, s.key, s.pem = issue(t, &x509.Certificate{NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature}, nil)
	s.signer = parsed.Raw
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	return s
}

// environment makes a registry use the service; the bundle is the file with its certificate.
func (s *Tokens) environment(bundle string) map[string]string {
	return map[string]string{
		"REGISTRY_AUTH": "token", "REGISTRY_AUTH_TOKEN_REALM": s.Realm, "REGISTRY_AUTH_TOKEN_SERVICE": tokenService,
		"REGISTRY_AUTH_TOKEN_ISSUER": tokenIssuer, "REGISTRY_AUTH_TOKEN_ROOTCERTBUNDLE": bundle,
	}
}

func (s *Tokens) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	user, password, _ := r.BasicAuth()
	if r.Method == http.MethodPost { // OAuth2's form of the same
		user, password = r.PostFormValue("username"), r.PostFormValue("password")
	}
	if known, ok := s.users[user]; !ok || known != password {
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(map[string]any{"errors": []any{map[string]string{"code": "UNAUTHORIZED", "message": "incorrect username or password"}}})
		return
	}
	token, err := s.sign(user, r.Form["scope"], r.URL.Query()["scope"])
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"token": token, "access_token": token})
}

// sign makes a token for all that is asked for, such as "repository:a/b:pull,push".
func (s *Tokens) sign(user string, scopes ...[]string) (string, error) {
	access := []any{}
	for _, several := range scopes {
		for _, scope := range strings.Fields(strings.Join(several, " ")) {
			if parts := strings.Split(scope, ":"); len(parts) == 3 {
				access = append(access, map[string]any{"type": parts[0], "name": parts[1], "actions": strings.Split(parts[2], ",")})
			}
		}
	}
	now := time.Now().Unix()
	part := func(v any) string {
		text, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	signed := part(map[string]any{"typ": "JWT", "alg": "ES256", "x5c": []string{base64.StdEncoding.EncodeToString(s.signer)}}) + "." +
		part(map[string]any{"iss": tokenIssuer, "aud": tokenService, "sub": user, "jti": "1", "nbf": now - 60, "iat": now, "exp": now + 300, "access": access})
	sum := sha256.Sum256([]byte(signed))
	a, b, err := ecdsa.Sign(rand.Reader, s.key, sum[:])
	if err != nil {
		return "", err
	}
	signature := make([]byte, 64)
	a.FillBytes(signature[:32])
	b.FillBytes(signature[32:])
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}
