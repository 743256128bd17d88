package params_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/params"
)

// withStorage is a cluster whose storage server has these members in place of its own.
func withStorage(volumes, exports string) json.RawMessage {
	return json.RawMessage(`{"k8s_cluster_installation_param":{"script_path":"s",
		"master_node":{"ssh_cp_name":"m","cluster_cp_name":"m"},"worker_node":{"ssh_cp_name":"w"},
		"storage_server":{"ssh_cp_name":"s",
			"cinder_volume_setup_params":[` + volumes + `],
			"nfs_server_setup_params":[` + exports + `]}}}`)
}

const aVolume = `{"volume_resource_id":"v1","mount_to":"/volume"}`

func legal(t *testing.T, raw json.RawMessage, warnings ...string) *params.Params {
	t.Helper()
	p, report := params.Parse(raw, "")
	if p == nil {
		t.Fatalf("refused:\n%v\n%s", report.Faults, raw)
	}
	var got []string
	for _, w := range report.Warnings {
		got = append(got, w.Pointer[strings.LastIndex(w.Pointer, "/")+1:]+": "+w.Message)
	}
	if len(got) != len(warnings) {
		t.Errorf("got %d warnings, want %d: %s", len(got), len(warnings), strings.Join(got, "\n"))
		return p
	}
	for i, want := range warnings {
		if !strings.Contains(got[i], want) {
			t.Errorf("got %q, want %q", got[i], want)
		}
	}
	return p
}

func TestRedundantSlashes(t *testing.T) {
	p := legal(t, withStorage(`{"volume_resource_id":"v1","mount_to":"//volume//a/"}`, `{"export_dir":"/volume/a//nfs/","export_to":"node1"}`),
		`mount_to: "//volume//a/" is taken as "/volume/a"`, `export_dir: "/volume/a//nfs/" is taken as "/volume/a/nfs"`)
	s := p.Cluster.StorageServer
	if v, e := s.Volumes[0], s.Exports[0]; v.MountTo != "/volume/a" || e.Directory != "/volume/a/nfs" || e.MountTo != "/volume/a" {
		t.Errorf("got %+v, %+v", v, e)
	}
	p = legal(t, json.RawMessage(`{"private_registry_installation_param":{"ssh_cp_name":"CP1","volume_resource_id":"v","mount_to":"/srv/registry/"}}`),
		`"/srv/registry/" is taken as "/srv/registry"`)
	if got := p.Registry.DataDirectory(); got != "/srv/registry/registry" {
		t.Errorf("data in %s", got)
	}
}

func TestBlanksInNoProxy(t *testing.T) {
	p := legal(t, json.RawMessage(`{"private_registry_installation_param":{"ssh_cp_name":"CP1","proxy":{"no_proxy":" 10.0.0.1 , .example.com,"}}}`),
		`no_proxy: " 10.0.0.1 , .example.com," is taken as "10.0.0.1,.example.com"`)
	if got := p.Registry.Proxy.NoProxy; got != "10.0.0.1,.example.com" {
		t.Errorf("got %q", got)
	}
}

// The specifications' own proxy has a port that is no number. It is accepted, and a warning says that
// nothing is reached through it, without what may be a password.
func TestPortsOfProxies(t *testing.T) {
	const says = ": has a port that is no number from 1 to 65535"
	for address, wrong := range map[string]bool{
		"http://user1:password1@host1:port1": true, "host1:port1/": true, "http://host1:": true, "host1:0": true, "host1:65536": true, "user:hunter2": true,
		"http://user1:pass/wo@rd@host1:8080": false, "host1:3128/": false, "http://host1": false, "https://[2001:db8::1]:443": false, "[2001:db8::1]": false,
	} {
		var warnings []string
		if wrong {
			warnings = []string{"http_proxy" + says, "https_proxy" + says}
		}
		p := legal(t, json.RawMessage(`{"private_registry_installation_param":{"ssh_cp_name":"CP1","proxy":{"http_proxy":"`+address+`","https_proxy":"`+address+`"}}}`), warnings...)
		if p.Registry.Proxy.HTTP.Reveal() != address {
			t.Errorf("%q became another address", address)
		}
	}
}

func TestAnEmptyTextIsAnAbsentParameter(t *testing.T) {
	absent := legal(t, json.RawMessage(`{"private_registry_installation_param":{"ssh_cp_name":"CP1"}}`))
	names := []string{"ssh_username", "ssh_password", "image_path", "port_no", "volume_resource_id", "mount_to", "proxy"}
	var members, warnings []string
	for _, name := range names {
		members = append(members, fmt.Sprintf(`%q:""`, name))
		warnings = append(warnings, name+": is empty; taken as absent")
	}
	empty := legal(t, json.RawMessage(`{"k8s_cluster_installation_param":"","private_registry_installation_param":{"ssh_cp_name":"CP1",`+strings.Join(members, ",")+`}}`),
		append([]string{"k8s_cluster_installation_param: is empty"}, warnings...)...)
	if diff := cmp.Diff(absent, empty, compareValues); diff != "" {
		t.Error(diff)
	}
	absent = legal(t, withStorage(aVolume, `{"export_dir":"/volume","export_to":"node1"}`))
	empty = legal(t, withStorage(aVolume, `{"export_dir":"/volume","export_to":"node1","export_options":""}`), "export_options: is empty")
	if diff := cmp.Diff(absent, empty, compareValues); diff != "" {
		t.Error(diff)
	}
	connection := func(rest string) json.RawMessage {
		return json.RawMessage(`{"k8s_cluster_installation_param":{"script_path":"s","master_node":{"ssh_cp_name":"m","cluster_cp_name":"m"},
			"worker_node":{"ssh_cp_name":"w"},"storage_server":"","pv_registration_params":"",
			"private_registry_connection_info":[{"connection_type":"1","server":"r:5000"` + rest + `}]}}`)
	}
	absent = legal(t, connection(""), "storage_server", "pv_registration_params")
	empty = legal(t, connection(`,"username":"","password":"","certificate_path":"","hosts_string":""`),
		"storage_server", "pv_registration_params", "username", "password", "certificate_path", "hosts_string")
	if diff := cmp.Diff(absent, empty, compareValues); diff != "" {
		t.Error(diff)
	}
	if p, _ := params.Parse(connection(`,"username":"","password":"x"`), ""); p != nil {
		t.Error("a password without a user is taken")
	}
}

func TestClientsOfAnExport(t *testing.T) {
	for given, c := range map[string]struct {
		clients  []string
		warnings []string
	}{
		`"*"`:                                    {[]string{"*"}, []string{"* exports the directory to every address"}},
		`"10.10.0.0/255.255.255.0"`:              {[]string{"10.10.0.0/24"}, []string{`"10.10.0.0/255.255.255.0" is taken as "10.10.0.0/24"`}},
		`"10.10.0.7/255.255.255.0"`:              {[]string{"10.10.0.0/24"}, []string{"10.10.0.7/24 has host bits set; taken as 10.10.0.0/24"}},
		`"fd00:0::1"`:                            {[]string{"fd00::1"}, []string{`is taken as "fd00::1"`}},
		`"node1.example.com"`:                    {[]string{"node1.example.com"}, nil},
		`"10.10.0.0/24 10.20.0.0/24"`:            {[]string{"10.10.0.0/24", "10.20.0.0/24"}, []string{"is taken as 2 clients"}},
		`" 10.10.0.0/24,  node1,node2,"`:         {[]string{"10.10.0.0/24", "node1", "node2"}, []string{"is taken as 3 clients"}},
		`["10.10.0.0/24","node1"]`:               {[]string{"10.10.0.0/24", "node1"}, nil},
		`["node1","NODE1","10.0.0.1"]`:           {[]string{"node1", "10.0.0.1"}, nil},
		`["0.0.0.0/0","::/0"]`:                   {[]string{"0.0.0.0/0", "::/0"}, []string{"0.0.0.0/0 exports", "::/0 exports"}},
		`"10.10.0.0/24,10.10.0.0/255.255.255.0"`: {[]string{"10.10.0.0/24"}, []string{"2 clients", "is taken as"}},
	} {
		t.Run(given, func(t *testing.T) {
			p := legal(t, withStorage(aVolume, `{"export_dir":"/volume","export_to":`+given+`}`), c.warnings...)
			if diff := cmp.Diff(c.clients, p.Cluster.StorageServer.Exports[0].To); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOptionsOfAnExport(t *testing.T) {
	export := func(options string) json.RawMessage {
		return withStorage(aVolume, `{"export_dir":"/volume","export_to":"node1","export_options":`+options+`}`)
	}
	for given, c := range map[string]struct {
		options  string
		warnings []string
	}{
		`[]`:                        {"rw,sync,no_subtree_check,insecure,all_squash", nil},
		`["ro"]`:                    {"ro,sync,no_subtree_check,insecure,all_squash", nil},
		`["sync","no_root_squash"]`: {"rw,sync,no_subtree_check,insecure,no_root_squash", nil},
		`["anonuid=0"]`:             {"rw,sync,no_subtree_check,insecure,all_squash,anonuid=0", []string{"makes every user of every client root"}},
		`["anonuid=0","ro"]`:        {"ro,sync,no_subtree_check,insecure,all_squash,anonuid=0", nil},
		`["sec=krb5p"]`:             {"rw,sync,no_subtree_check,insecure,all_squash,sec=krb5p", []string{"needs Kerberos"}},
	} {
		t.Run(given, func(t *testing.T) {
			p := legal(t, export(given), c.warnings...)
			if got := strings.Join(p.Cluster.StorageServer.Exports[0].Options, ","); got != c.options {
				t.Errorf("got %s, want %s", got, c.options)
			}
		})
	}
}

func TestAnExportInsideAnother(t *testing.T) {
	legal(t, withStorage(aVolume, `{"export_dir":"/volume/nfs/pv1","export_to":"node1","export_options":["ro"]},{"export_dir":"/volume","export_to":"node2"}`),
		`export_dir: "/volume/nfs/pv1" lies inside "/volume", which element 1 exports`)
	legal(t, withStorage(aVolume, `{"export_dir":"/volume/a","export_to":"node1"},{"export_dir":"/volume/ab","export_to":"node1"},{"export_dir":"/volume/a","export_to":"node2"}`))
}

// An account of a domain is a Linux user too.
func TestUsersOfADomain(t *testing.T) {
	p := legal(t, json.RawMessage(`{"private_registry_installation_param":{"ssh_cp_name":"CP1","ssh_username":"ops@example.com"}}`))
	if got := p.Registry.DataDirectory(); got != "/home/ops@example.com/registry" {
		t.Errorf("data in %s", got)
	}
}

func TestLogins(t *testing.T) {
	const key = "{\n  \"type\": \"service_account\",\r\n\t\"private_key\": \"-----BEGIN\\n\"\n}\n"
	password, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	p := legal(t, json.RawMessage(`{"k8s_cluster_installation_param":{"script_path":"s",
		"master_node":{"ssh_cp_name":"m","cluster_cp_name":"m"},"worker_node":{"ssh_cp_name":"w"},
		"private_registry_connection_info":[
			{"connection_type":"1","server":"gcr.io","username":"_json_key","password":`+string(password)+`},
			{"connection_type":"1","server":"docker.io","certificate_path":"Files/ca.crt"}]}}`),
		"certificate_path: has no effect on Docker")
	if got := p.Cluster.Registries[0].Password.Reveal(); got != key {
		t.Errorf("the password is %q", got)
	}
}

// The record of the NFS server's clients lies on the volume that the agent takes for the first.
func TestPersistentVolumesAtHeal(t *testing.T) {
	const volumes = `{"volume_resource_id":"v2","mount_to":"/volume2"},{"volume_resource_id":"v1","mount_to":"/volume"}`
	for said, want := range map[string]string{
		``: "",
		`"persistent_volumes_at_heal":"withdraw",`: "",
		`"persistent_volumes_at_heal":"keep",`:     "/volume/.nodehitch/nfs-clients",
	} {
		exports := `{"export_dir":"/volume/.nodehitch","export_to":"node1"},{"export_dir":"/volume2","export_to":"node1","export_options":["no_root_squash"]}`
		if want != "" {
			exports = `{"export_dir":"/volume/nfs","export_to":"node1"}`
		}
		raw := strings.Replace(string(withStorage(volumes, exports)), `"cinder_volume`, said+`"cinder_volume`, 1)
		if s := legal(t, json.RawMessage(raw)).Cluster.StorageServer; s.KeepVolumes != (want != "") || s.ClientRecords() != want {
			t.Errorf("%s: keep is %v, the record at %q, want %q", said, s.KeepVolumes, s.ClientRecords(), want)
		}
	}
}
