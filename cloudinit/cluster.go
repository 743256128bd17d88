package cloudinit

import (
	"bytes"
	"compress/gzip"
	_ "embed" // the units
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// The units that run the script: when the agent writes other facts of the cluster, at boot
// if there are any, and again after a failure. A machine runs it once at a time.
//
//go:embed nodehitch-cluster.service
var clusterService string

//go:embed nodehitch-cluster.path
var clusterPath string

//go:embed nodehitch-cluster-again.service
var clusterAgain string

// ClusterScript is the script of a VNF package that makes a machine a member of its
// Kubernetes cluster, as user_data has it: gzip, in base64. The zero value is none.
type ClusterScript string

// MaxOwn is how many bytes of user_data Nova leaves for what is not nodehitch's: the
// server's own user_data, and the cluster's script with its units.
const MaxOwn = 36000

// PackClusterScript packs the bytes of a script. It refuses what the kernel cannot run, and
// what does not fit into user_data.
func PackClusterScript(script []byte) (ClusterScript, error) {
	first, _, _ := bytes.Cut(script, []byte("\n"))
	switch {
	case !bytes.HasPrefix(first, []byte("#!")):
		return "", fmt.Errorf("the cluster's script begins with %.20q; expected #! and its interpreter, such as #!/bin/bash", first)
	case bytes.HasSuffix(first, []byte("\r")):
		return "", errors.New("the cluster's script has the line ends of Windows, with which its interpreter is not found; convert it (dos2unix)")
	}
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is a valid one
	if _, err := w.Write(script); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	s := ClusterScript(base64.StdEncoding.EncodeToString(packed.Bytes()))
	if s.Size() > MaxOwn {
		return "", fmt.Errorf("the cluster's script takes %d bytes of user_data (%d, compressed %d), expected at most %d: Nova takes 65535 in base64; let it download what is large",
			s.Size(), len(script), packed.Len(), MaxOwn)
	}
	return s, nil
}

// Size is how many bytes of user_data the script takes, with its units.
func (s ClusterScript) Size() int {
	const mime = 200 // what makes it a part of its own in a Heat stack
	return len(ClusterConfig(" "+string(s)+"\n")) + mime
}

// ClusterConfig is the cloud-config, without its first line, that puts the cluster's script
// onto a machine. The script is all that comes after `content:`, a ClusterScript or what
// makes one.
func ClusterConfig(script string) string {
	return "write_files:\n" + clusterFiles(script) + "runcmd:\n" + clusterRun
}

// clusterRun comes before the command that installs the agent: a machine with an agent has
// the script too, whenever its power goes.
const clusterRun = `- [systemctl, enable, --now, --no-block, --no-reload, nodehitch-cluster.path, nodehitch-cluster.service]
- [sync, -f, /var/lib/nodehitch, /etc/systemd/system]
`

func clusterFiles(script string) string {
	var b strings.Builder
	b.WriteString("- path: /var/lib/nodehitch/cluster-script\n  owner: root:root\n  permissions: '0700'\n  encoding: gz+b64\n  content:" + script)
	const units = "/etc/systemd/system/"
	writeFile(&b, units+"nodehitch-cluster.service", "0644", literal(clusterService))
	writeFile(&b, units+"nodehitch-cluster.path", "0644", literal(clusterPath))
	writeFile(&b, units+"nodehitch-cluster-again.service", "0644", literal(clusterAgain))
	return b.String()
}
