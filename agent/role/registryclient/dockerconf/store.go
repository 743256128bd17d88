package dockerconf

import "github.com/tailscale/hujson"

// Store is the credential helper that Docker asks for a server's login in place of
// auths: the one that credHelpers has for it, else credsStore; "" if auths counts.
// Kubelet knows no helpers of this file and looks into auths in any case.
func Store(content []byte, server string) (string, error) {
	d, err := parse(content)
	if err != nil {
		return "", err
	}
	helpers, err := d.member(d.settings, "credHelpers")
	if err != nil {
		return "", err
	}
	if helpers != nil {
		if object, ok := helpers.Value.(*hujson.Object); ok {
			helper, ok, err := d.word(object, authKey(server))
			if err != nil || ok {
				return helper, err
			}
		}
	}
	store, _, err := d.word(d.settings, "credsStore")
	return store, err
}

// word is the string of that name, false if there is none.
func (d *document) word(object *hujson.Object, name string) (string, bool, error) {
	v, err := d.member(object, name)
	if err != nil || v == nil || v.Value.Kind() == 'n' {
		return "", false, err
	}
	if v.Value.Kind() != '"' {
		return "", false, d.wrong(v, name, "a string")
	}
	return v.Value.(hujson.Literal).String(), true, nil
}
