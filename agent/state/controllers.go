package state

import (
	"errors"
	"fmt"

	"github.com/nodehitch/nodehitch/shared/api"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

const controllersFile = "controllers.json"

// ControllerURL is an address that the controller has sent, and the epoch in which a poll
// through it was answered.
type ControllerURL struct {
	URL   string `json:"url"`
	Epoch int64  `json:"epoch"`
}

// ControllerURLs reads what was learned, in the order in which to try them; *Damaged if
// one is none, or there are more than an agent ever keeps.
func (d *Directory) ControllerURLs() ([]ControllerURL, error) {
	var urls []ControllerURL
	if ok, err := d.readJSON(controllersFile, &urls); !ok {
		return nil, err
	}
	if n := len(urls); n == 0 || n > api.MaxControllerURLs {
		return nil, &Damaged{Path: d.Path(controllersFile), Err: fmt.Errorf("it has %d URLs, expected 1 to %d", n, api.MaxControllerURLs)}
	}
	for _, u := range urls {
		if url, err := grammar.ControllerURL(u.URL); err != nil || url != u.URL {
			return nil, &Damaged{Path: d.Path(controllersFile), Err: errors.New("it has a URL that is not a controller's: expected https://host[:port]")}
		}
	}
	return urls, nil
}

// SaveControllerURLs saves the learned addresses.
func (d *Directory) SaveControllerURLs(urls []ControllerURL) error {
	if len(urls) == 0 {
		return d.Remove(controllersFile)
	}
	return d.writeJSON(controllersFile, urls)
}
