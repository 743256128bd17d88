package connect

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nodehitch/nodehitch/shared/client"
)

// Servers are where a controller is, https://host:port or unix:///path of its socket; or where
// the controllers are that share a store, https://host:port of each with commas between. In the
// context file that is a list.
type Servers string

// Join is the Servers of a list.
func Join(list []string) Servers { return Servers(strings.Join(list, ",")) }

// List is each of them. The path of a socket may have commas.
func (s Servers) List() []string {
	if path, is := strings.CutPrefix(string(s), unixScheme); is && !strings.Contains(path, "://") {
		return []string{string(s)}
	}
	list := strings.Split(string(s), ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

// MarshalJSON gives a text for one, a list for several.
func (s Servers) MarshalJSON() ([]byte, error) {
	if list := s.List(); len(list) > 1 {
		return json.Marshal(list)
	}
	return json.Marshal(string(s))
}

// UnmarshalJSON takes either.
func (s *Servers) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*s = Servers(one)
		return nil
	}
	var list []string
	if json.Unmarshal(text, &list) != nil {
		return errors.New("expected a URL or a list of URLs")
	}
	*s = Join(list)
	return nil
}

// Check finds every fault of a list. from is where it was given. What is wrong with one alone is
// said by Target.Client.
func (s Servers) Check(from string) error {
	list := s.List()
	if len(list) < 2 {
		return nil
	}
	first := map[string]int{}
	var faults []string
	for i, text := range list {
		err := client.CheckURL(text)
		key := strings.ToLower(strings.TrimSuffix(text, "/"))
		switch before := first[key]; {
		case text == "":
			err = errors.New("is empty; expected https://host:port")
		case strings.HasPrefix(text, unixScheme):
			err = errors.New("is a socket, of this machine's controller alone; give that alone, or https://host:port of each controller")
		case err == nil && before > 0:
			err = fmt.Errorf("is URL %d again; give each controller once", before)
		}
		if err != nil {
			faults = append(faults, fmt.Sprintf("\n  URL %d of %d: %v", i+1, len(list), err))
		}
		if first[key] == 0 {
			first[key] = i + 1
		}
	}
	if faults == nil {
		return nil
	}
	return fmt.Errorf("%s:%s", from, strings.Join(faults, ""))
}
