// Package cloudinit renders the user_data with which a new VM becomes a node: a
// cloud-config that writes the agent's configuration and starts a small
// downloader, and nothing else. It stays readable in Nova's metadata for the life
// of the stack, and every member of a Heat group carries the same, so it names no
// role, no server and no version of the agent.
//
// If a VM also has a cloud-config of its own (a multipart user_data), that part must have a
// `merge_how` that appends to lists, or it replaces write_files and runcmd; see cloud-init's
// "Merging user data sections".
package cloudinit

import (
	_ "embed" // the downloader and its unit
	"encoding/json"
	"fmt"
	"strings"
)

//go:embed bootstrap.py
var bootstrap string

//go:embed nodehitch-bootstrap.service
var unit string

// maxSize keeps user_data, base64 encoded, below Nova's 65535 bytes.
const maxSize = 48 << 10

const head = `#cloud-config
# Makes this machine a nodehitch node: it fetches the agent from its controller.
# The join token below is good only for servers that the controller expects.
`

// cloud-init notes that it has written files and run commands before it has, and what
// it wrote may not have reached the disk when the power goes. bootcmd, which runs
// first in every boot, makes it forget that where the machine lacks any of it and has
// no agent yet, or no configuration for one that the image had enabled. In the first boot
// there is nothing to forget.
const again = `bootcmd:
- - sh
  - -c
  - |
    wants=/etc/systemd/system/multi-user.target.wants
    test -L $wants/nodehitch-agent.service && test -s /etc/nodehitch/agent.yaml && exit
    for file in $wants/nodehitch-bootstrap.service /var/lib/nodehitch/bootstrap.py /etc/nodehitch/agent.yaml; do
      test -s $file || { cd /var/lib/cloud/instance/sem && rm -f config_write_files config_runcmd config_scripts_user; }
    done
    exit 0
`

// systemd reads an unknown unit when it is started. Making it read all units again would
// take longer than anything else here.
const run = `- [systemctl, enable, --now, --no-block, --no-reload, nodehitch-bootstrap.service]
`

// Render is the user_data for every VM of one VNF instance, or of its masters and workers
// if there is a script of the cluster. The same parameters give the same bytes, so Heat
// sees no change. The error says everything that is wrong with the parameters, without the
// token.
func Render(p Params, script ClusterScript) ([]byte, error) {
	config, err := p.check()
	if err != nil {
		return nil, fmt.Errorf("rendering user_data: %w", err)
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("rendering user_data: %w", err)
	}
	b := head + cloudConfig(literal(string(text)+"\n"), script)
	if len(b) > maxSize {
		return nil, fmt.Errorf("rendering user_data: %d bytes, but Nova takes %d; give fewer or shorter controller URLs, or a smaller script", len(b), maxSize)
	}
	return []byte(b), nil
}

// CloudConfig is the cloud-config of every VM, without its first line. The content
// of the agent's configuration is configuration: all that comes after `content:`, a
// YAML value whose further lines are indented by four blanks. Render puts the text
// there, a Heat template a function that makes it.
func CloudConfig(configuration string) string { return cloudConfig(configuration, "") }

func cloudConfig(configuration string, script ClusterScript) string {
	var b strings.Builder
	files, commands := "", run
	if script != "" {
		files, commands = clusterFiles(" "+string(script)+"\n"), clusterRun+run
	}
	b.WriteString(again + "write_files:\n" + files)
	writeFile(&b, "/etc/nodehitch/agent.yaml", "0600", configuration)
	writeFile(&b, "/var/lib/nodehitch/bootstrap.py", "0600", literal(bootstrap))
	writeFile(&b, "/etc/systemd/system/nodehitch-bootstrap.service", "0644", literal(unit))
	b.WriteString("runcmd:\n" + commands)
	return b.String()
}

// writeFile adds an entry of write_files.
func writeFile(b *strings.Builder, path, mode, content string) {
	fmt.Fprintf(b, "- path: %s\n  owner: root:root\n  permissions: '%s'\n  content:%s", path, mode, content)
}

// literal is the content as a literal block, where YAML gives no character a
// meaning, so it must not begin with white space.
func literal(content string) string {
	var b strings.Builder
	b.WriteString(" |\n")
	for line := range strings.Lines(content) {
		if line != "\n" {
			b.WriteString("    ")
		}
		b.WriteString(line)
	}
	return b.String()
}
