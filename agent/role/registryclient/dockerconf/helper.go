package dockerconf

import "github.com/tailscale/hujson"

// Helper is the credential helper that Docker asks for a server's login instead of auths: the
// server's entry of credHelpers, else credsStore; "" if Docker uses auths. Kubelet uses no
// helper of this file and always reads auths.
func Helper(content []byte, server string) (string, error) {
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
			helper, ok, err := d.stringMember(object, authKey(server))
			if err != nil || ok {
				return helper, err
			}
		}
	}
	helper, _, err := d.stringMember(d.settings, "credsStore")
	return helper, err
}

// stringMember returns the string with that name, false if there is none.
func (d *document) stringMember(object *hujson.Object, name string) (string, bool, error) {
	v, err := d.member(object, name)
	if err != nil || v == nil || v.Value.Kind() == 'n' {
		return "", false, err
	}
	if v.Value.Kind() != '"' {
		return "", false, d.wrong(v, name, "a string")
	}
	return v.Value.(hujson.Literal).String(), true, nil
}
