package dockerconf

import "github.com/tailscale/hujson"

// Store is the credential helper that Docker asks for a server's login instead of
// looking into auths: the one that credHelpers has for it, else credsStore; "" where
// there is none. Kubelet knows no helpers in this file and looks into auths.
func Store(content []byte, server string) (string, error) {
	d, err := parse(content)
	if err != nil {
		return "", err
	}
	helpers, err := d.member(d.root, "credHelpers")
	if err != nil {
		return "", err
	}
	if helpers != nil && helpers.Value.Kind() == '{' {
		helper, err := d.text1(helpers, authKey(server))
		if err != nil || helper != nil {
			return deref(helper), err
		}
	}
	store, err := d.text1(d.root, "credsStore")
	return deref(store), err
}

// text1 is the member of that name, which must be a string; nil where there is none.
func (d *document) text1(object *hujson.Value, name string) (*string, error) {
	v, err := d.member(object, name)
	if err != nil || v == nil || v.Value.Kind() == 'n' {
		return nil, err
	}
	if v.Value.Kind() != '"' {
		return nil, d.wrong(v, name, "a string")
	}
	s := v.Value.(hujson.Literal).String()
	return &s, nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
