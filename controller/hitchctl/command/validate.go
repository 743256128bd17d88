package command

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/controller/describe"
	"github.com/nodehitch/nodehitch/controller/hitchctl/request"
	"github.com/nodehitch/nodehitch/controller/hitchctl/screen"
)

// input is what validate and apply check before anything is sent.
type input struct {
	request, topology, pack string
}

func (i *input) flags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&i.request, "filename", "f", "", "the request: Tacker's InstantiateVnfRequest, or the body of a PUT of ours; - is standard input")
	cmd.Flags().StringVar(&i.topology, "topology", "", "file with the topology (servers, connection points, volumes)")
	cmd.Flags().StringVar(&i.pack, "package", "", "the VNF package, a directory or a CSAR, to check it and the files that the request names")
	_ = cmd.MarkFlagRequired("filename")
}

// checked is the request with all that is wrong, and the package's files.
type checked struct {
	*request.Request
	files []request.File
	pack  *request.Package // nil if none was given
}

func (c *checked) close() {
	if c.pack != nil {
		_ = c.pack.Close()
	}
}

// check reads everything, the request by read, and checks it. Its error is about reading only.
func (a *app) check(i input, read func(name string, body []byte) *request.Request) (*checked, error) {
	if i.request == "-" && i.topology == "-" {
		return nil, usagef("-f and --topology cannot both be standard input")
	}
	body, err := a.read(i.request)
	if err != nil {
		return nil, err
	}
	c := &checked{Request: read(i.request, body)}
	if i.topology != "" {
		data, err := a.read(i.topology)
		if err != nil {
			return nil, err
		}
		c.UseTopology(i.topology, data)
	}
	if i.pack == "" {
		return c, nil
	}
	if c.pack, err = request.OpenPackage(i.pack); err != nil {
		return nil, err
	}
	if c.files, err = c.CheckFiles(c.pack, a.now()); err == nil {
		err = c.CheckTemplates(c.pack)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// maxInput is far more than any request or topology has.
const maxInput = 16 << 20

// read reads a file, or standard input where it is called -.
func (a *app) read(path string) ([]byte, error) {
	f := a.in
	if path != "-" {
		var err error
		if f, err = os.Open(path); err != nil {
			return nil, err
		}
		defer f.Close()
	}
	data, err := io.ReadAll(io.LimitReader(f, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(data) > maxInput {
		return nil, fmt.Errorf("reading %s: it is larger than %s, the limit for a request", path, describe.Size(maxInput))
	}
	return data, nil
}

const validateHelp = `Check the request of an instantiation offline, before any virtual machine exists:
the whole body, and with --package also every file of the VNF package that it
names, for every use that it makes of it; that the Heat templates in BaseHOT have its
volumes, connection points and groups; and, if the package has TOSCA.meta, the hashes in
it, that the VNFD has the names of the Heat templates, and that Tacker's v1 API keeps the
parameters of the base HOT as they are. All faults are reported at
once, each with its JSON pointer. Warnings never fail.

Exit codes: 0 valid, 1 not valid, 2 the command line is wrong.

With -o json:

    {"kind": "InstantiateVnfRequest" or "InstanceSpec", "valid": false,
     "faults":   [{"document": "request.json", "pointer": "/additionalParams/…", "message": "…"}],
     "warnings": [same],
     "files":    [{"path": "…", "uses": ["manifest"], "sizeBytes": 1, "sha256": "…"}]}`

func (a *app) validate() *cobra.Command {
	var i input
	var o output
	cmd := &cobra.Command{
		Use:   "validate -f request.json",
		Short: "Check a request offline: every fault, each with its JSON pointer",
		Long:  validateHelp,
		Example: `  hitchctl validate -f request.json
  hitchctl validate -f request.json --package my-vnf/ --topology topology.json
  jq .request order.json | hitchctl validate -f - -o json`,
		Args: cobra.NoArgs,
		RunE: a.run(func(context.Context, []string) error {
			c, err := a.check(i, request.Read)
			if err != nil {
				return err
			}
			defer c.close()
			if c.pack != nil { // the controller needs none of it, so apply does not ask
				if err := c.CheckDefinitions(c.pack); err != nil {
					return err
				}
			}
			return a.result(c, o)
		}),
	}
	i.flags(cmd)
	outputFlag(cmd, &o)
	return cmd
}

// result prints what was found.
func (a *app) result(c *checked, o output) error {
	var err error
	if o != asTable {
		err = a.encode(o, map[string]any{
			"kind": c.Kind, "valid": len(c.Faults) == 0, "faults": findings(c.Faults), "warnings": findings(c.Warnings), "files": filesOf(c),
		})
	} else {
		if err = a.printFindings(a.out, c); err == nil && len(c.Faults) == 0 {
			err = a.print(a.out.Paint(screen.Good, a.out.Symbol("✓ ", "")+"valid") + " " + about(c))
		}
	}
	if err == nil && len(c.Faults) > 0 {
		err = errSaid
	}
	return err
}

func findings(list []request.Finding) []request.Finding {
	if list == nil {
		return []request.Finding{}
	}
	return list
}

func filesOf(c *checked) []request.File {
	if c.files == nil {
		return []request.File{}
	}
	return c.files
}

// about says what was checked.
func about(c *checked) string {
	text := string(c.Kind)
	if c.pack != nil {
		text += ", with " + count(len(c.files), "file") + " of the package " + c.pack.Name
	}
	if n := len(c.Warnings); n > 0 {
		text += ", " + count(n, "warning")
	}
	return text
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
