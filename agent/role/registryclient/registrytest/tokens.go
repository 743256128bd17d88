package registrytest

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

const (
	service = "registry.test"
	issuer  = "token service of the test"
)

// TokenService gives tokens to one user, signed as in
// https://distribution.github.io/distribution/spec/auth/jwt/.
type TokenService struct {
	// URL without the path.
	URL string
	// Asked is how often it was asked.
	Asked func() int

	username, password string
	signer             *Certificate

	mu    sync.Mutex
	asked int
}

// Tokens starts a token service on an address of its own, with HTTP if it has no certificate.
func Tokens(t testing.TB, username, password string, certificate *Certificate) *TokenService {
	t.Helper()
	s := &TokenService{username: username, password: password, signer: CA(t, "tokens", Now())}
	server := httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	t.Cleanup(server.Close)
	if certificate == nil {
		server.Start()
	} else {
		server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate.TLS()}, MinVersion: tls.VersionTLS12}
		server.StartTLS()
	}
	s.URL = server.URL
	s.Asked = func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.asked
	}
	return s
}

func (s *TokenService) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked++
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	username, password, _ := r.BasicAuth()
	if username != s.username || password != s.password || r.FormValue("service") != service || r.FormValue("account") != username {
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(map[string]any{"errors": []map[string]string{{
			"code": "UNAUTHORIZED", "message": "no such user: " + username + " with " + password,
		}}})
		return
	}
	token, err := s.sign(username)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"token": token})
}

// sign makes a token that is good for asking GET /v2/.
func (s *TokenService) sign(username string) (string, error) {
	now := time.Now().Unix()
	part := func(v any) string {
		b, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(b)
	}
	signed := part(map[string]any{"typ": "JWT", "alg": "ES256", "x5c": []string{base64.StdEncoding.EncodeToString(s.signer.parsed.Raw)}}) + "." +
		part(map[string]any{"iss": issuer, "sub": username, "aud": service, "nbf": now - 60, "iat": now, "exp": now + 300, "jti": "1", "access": []string{}})
	sum := sha256.Sum256([]byte(signed))
	a, b, err := ecdsa.Sign(rand.Reader, s.signer.key, sum[:])
	if err != nil {
		return "", err
	}
	signature := make([]byte, 64)
	a.FillBytes(signature[:32])
	b.FillBytes(signature[32:])
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}
