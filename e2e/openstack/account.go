package openstack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// The APIs' addresses in the lab's network. {project} in a URL that Account.Call gets is
// the account's own.
const (
	HeatURL    = "http://" + host + ":8004/v1/{project}"
	NovaURL    = "http://" + host + ":8774/v2.1"
	NeutronURL = "http://" + host + ":9696/v2.0"
	CinderURL  = "http://" + host + ":8776/v3/{project}"
	GlanceURL  = "http://" + host + ":9292/v2"
)

// Account is a user of the cloud and the project that it works in. Its methods may be
// called from several goroutines.
type Account struct {
	Name, Project string

	password string
	cloud    *Cloud

	mu    sync.Mutex
	token string
	// Written with the first token; later ones are of the same.
	projectID, userID string
}

// StatusError is an answer of the cloud other than 2xx.
type StatusError struct {
	Method, URL string
	Status      int
	Body        string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s %s: %d: %s", e.Method, e.URL, e.Status, strings.TrimSpace(e.Body))
}

// Password of the account. Its domain is Default.
func (a *Account) Password() string { return a.password }

// ProjectID is the id of its project.
func (a *Account) ProjectID(ctx context.Context) (string, error) {
	_, err := a.authenticated(ctx)
	return a.projectID, err
}

// Call sends a request, with body as JSON if it is not nil, and reads the answer's JSON
// into answer if that is not nil. A token that is refused is renewed, once. An
// answer other than 2xx is a *StatusError.
func (a *Account) Call(ctx context.Context, method, url string, body, answer any) error {
	for renewed := false; ; renewed = true {
		token, err := a.authenticated(ctx)
		if err != nil {
			return err
		}
		_, err = a.cloud.send(ctx, method, strings.Replace(url, "{project}", a.projectID, 1), token, body, answer)
		status := (*StatusError)(nil)
		if renewed || !errors.As(err, &status) || status.Status != http.StatusUnauthorized {
			return err
		}
		a.forget(token)
	}
}

// authenticated returns a token, and gets one if there is none.
func (a *Account) authenticated(ctx context.Context) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token != "" {
		return a.token, nil
	}
	domain := map[string]any{"id": "default"}
	request := map[string]any{"auth": map[string]any{
		"identity": map[string]any{"methods": []string{"password"}, "password": map[string]any{
			"user": map[string]any{"name": a.Name, "domain": domain, "password": a.password},
		}},
		"scope": map[string]any{"project": map[string]any{"name": a.Project, "domain": domain}},
	}}
	var answer struct {
		Token struct{ Project, User struct{ ID string } }
	}
	header, err := a.cloud.send(ctx, http.MethodPost, AuthURL+"/auth/tokens", "", request, &answer)
	if err != nil {
		return "", err
	}
	if a.projectID == "" {
		a.projectID, a.userID = answer.Token.Project.ID, answer.Token.User.ID
	}
	a.token = header.Get("X-Subject-Token")
	return a.token, nil
}

func (a *Account) forget(token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token == token {
		a.token = ""
	}
}

// send is one request and its answer.
func (c *Cloud) send(ctx context.Context, method, url, token string, body, answer any) (http.Header, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	// Before this version Cinder does not extend a volume that a server has.
	request.Header.Set("OpenStack-API-Version", "volume 3.42")
	if token != "" {
		request.Header.Set("X-Auth-Token", token)
	}
	response, err := c.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 != 2 {
		return nil, &StatusError{Method: method, URL: url, Status: response.StatusCode, Body: string(text)}
	}
	if answer == nil {
		return response.Header, nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return nil, fmt.Errorf("%s %s: reading the answer: %w", method, url, err)
	}
	return response.Header, nil
}
