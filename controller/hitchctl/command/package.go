package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodehitch/nodehitch/cloudinit"
	"github.com/nodehitch/nodehitch/cloudinit/hot"
	"github.com/nodehitch/nodehitch/controller/hitchctl/csar"
	"github.com/nodehitch/nodehitch/shared/nearest"
)

func (a *app) vnfPackage() *cobra.Command {
	return group(&cobra.Command{
		Use: "package", Short: "Build a VNF package for Tacker",
		Example: "  hitchctl package build --template simple-storage --files my-vnf/ --file my-vnf.csar",
	}, a.packageBuild())
}

// buildFlags are the flags of `package build`.
type buildFlags struct {
	template, flavour, api string
	types, files, script   string
	flavors, images        []string
	controller             bool
	urls                   []string
	file                   string
	force                  bool
}

var apis = texts(hot.V1, hot.V2)

func (a *app) packageBuild() *cobra.Command {
	var f buildFlags
	cmd := &cobra.Command{
		Use: "build --template NAME --file FILE", Short: "Build a VNF package (CSAR) for Tacker",
		Long: `Build a VNF package (CSAR) for Tacker: the Heat templates of render hot, a VNFD with the
same names, the UserData class and the driver that make Tacker call nodehitch, your own
files, and TOSCA.meta with the SHA-256 of each. The same input gives the same bytes
(SOURCE_DATE_EPOCH sets the files' time), and other content another VNFD id. A package that is
there and differs is kept, unless --force replaces it.

--files names a directory with everything that requests name: scripts, manifests,
certificates, the registry's image, each at its path in the package.

--cluster-script names the file in --files, such as the request's script_path, that makes a
machine a member of its Kubernetes cluster. It goes into the user_data of masters and
workers, unaltered and compressed, and they run it when the facts of their cluster change.
Give it if requests have cluster_members and the image does not join clusters by itself.

--image is the name of an image that Glance has, or the path of an image in --files, which
Tacker then uploads for each VDU of each VNF: with the v1 API, one VNF at a time can be made
of such a package. --flavor and --image may be repeated as VDU=NAME for one VDU.

The VNFD imports ETSI's type definitions (SOL001 2.6.1). They carry no licence, so hitchctl
does not have them: --etsi-types names a directory with a copy of yours. Without it Tacker
fetches them from forge.etsi.org when it gets the package.

--controller makes the URLs, the root certificate and the pin of the controller that hitchctl
talks to defaults of the base HOT. The package never holds a join token.`,
		Example: `  hitchctl package build --template simple-storage --files my-vnf/ --file my-vnf.csar
  hitchctl package build --template complex --api v2 --etsi-types Definitions/ --file my-vnf.csar
  hitchctl package build --template registry --files my-vnf/ --image Files/images/debian.qcow2 \
    --flavor m1.large --file registry.csar
  hitchctl package build --template complex --files my-vnf/ --cluster-script Scripts/install_k8s_cluster.sh \
    --file my-vnf.csar
  hitchctl package build --template simple --controller --file my-vnf.csar
  hitchctl validate -f request.json --package my-vnf.csar`,
		Args: cobra.NoArgs,
		RunE: a.run(func(ctx context.Context, _ []string) error { return a.buildPackage(ctx, f) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.template, "template", "", "what the VNF has: "+strings.Join(hot.Flavours, ", "))
	flags.StringVar(&f.flavour, "flavour-id", "simple", "the deployment flavour: flavourId of requests")
	flags.StringVar(&f.api, "api", string(hot.V1), "version of Tacker's VNF LCM API: v1 or v2")
	flags.BoolVar(&f.controller, "controller", false, "put the controller's URLs, root certificate and pin into the base HOT")
	flags.StringArrayVar(&f.urls, "controller-url", nil, "with --controller: URL by which the VMs reach it, may be repeated (default those that the controller names)")
	flags.StringVar(&f.types, "etsi-types", "", "directory with ETSI's "+strings.Join(csar.TypeFiles, " and "))
	flags.StringVar(&f.files, "files", "", "directory with your own files, at their paths in the package")
	flags.StringVar(&f.script, "cluster-script", "", "script in --files that masters and workers run when the facts of their cluster change")
	flags.StringArrayVar(&f.flavors, "flavor", nil, "Nova flavor of the servers, or of one VDU: VDU=NAME (default m1.medium)")
	flags.StringArrayVar(&f.images, "image", nil, "image of the servers, or of one VDU: VDU=NAME (default debian-12)")
	flags.StringVar(&f.file, "file", "", "package to write")
	flags.BoolVar(&f.force, "force", false, "replace a package that differs")
	_ = cmd.MarkFlagRequired("template")
	_ = cmd.MarkFlagRequired("file")
	_ = cmd.MarkFlagDirname("files")
	_ = cmd.MarkFlagDirname("etsi-types")
	completeFlag(cmd, "template", hot.Flavours...)
	completeFlag(cmd, "api", apis...)
	return cmd
}

func (a *app) buildPackage(ctx context.Context, f buildFlags) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	at, err := csar.Epoch(a.getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		return err
	}
	if f.controller {
		if o.Controller, err = a.trust(ctx, f.urls); err != nil {
			return err
		}
	}
	if o.Types, err = directory("etsi-types", f.types); err != nil {
		return err
	}
	if o.Files, err = directory("files", f.files); err != nil {
		return err
	}
	p, err := csar.Build(o)
	if err != nil {
		return err
	}
	if err := writePackage(f.file, f.force, func(w io.Writer) error { return p.Write(w, at) }); err != nil {
		return err
	}
	fmt.Fprintf(a.err, "%s: %d files, VNFD %s\n", f.file, p.Count(), p.VNFDID)
	for _, s := range p.Servers {
		fmt.Fprintf(a.err, "  %s: flavor %s, image %s\n", s.VDU, s.Flavor, s.Image)
	}
	if f.types == "" {
		a.warn("Tacker fetches ETSI's type definitions from forge.etsi.org when it gets this package. If it cannot, or refuses them, build with --etsi-types: Tacker's source has a copy that its parser accepts, in samples/mgmt_driver/kubernetes/private_registry_vnf_package/Definitions")
	}
	return nil
}

// directory is the one that a flag names, nil without a path. What is below it is read later.
func directory(flag, path string) (fs.FS, error) {
	if path == "" {
		return nil, nil
	}
	if _, err := os.ReadDir(path); err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return os.DirFS(path), nil
}

// options are those of the flags that need nothing else.
func (f buildFlags) options() (csar.Options, error) {
	o := csar.Options{Template: f.template, FlavourID: f.flavour, API: hot.API(f.api), ClusterScript: f.script,
		Flavors: byVDU("m1.medium", f.flavors), Images: byVDU("debian-12", f.images),
	}
	for _, choice := range []struct {
		what, given string
		known       []string
	}{{"template", f.template, hot.Flavours}, {"API", f.api, apis}} {
		if !slices.Contains(choice.known, choice.given) {
			return o, usageError{nearest.Unknown(choice.what, choice.given, choice.known)}
		}
	}
	if len(f.urls) > 0 && !f.controller {
		return o, usagef("--controller-url is given without --controller")
	}
	if f.script != "" && f.files == "" {
		return o, usagef("--cluster-script is given without --files")
	}
	return o, nil
}

// byVDU reads NAME and VDU=NAME.
func byVDU(otherwise string, values []string) map[string]string {
	all := map[string]string{"": otherwise}
	for _, value := range values {
		vdu, name, one := strings.Cut(value, "=")
		if !one {
			vdu, name = "", value
		}
		all[vdu] = name
	}
	return all
}

// trust is what names the controller that hitchctl talks to.
func (a *app) trust(ctx context.Context, urls []string) (*cloudinit.Params, error) {
	c, err := a.controller()
	if err != nil {
		return nil, err
	}
	defer c.CloseIdle()
	ctx, cancel := withinCall(ctx)
	defer cancel()
	p, err := trustParams(ctx, c, urls)
	return &p, err
}

// writePackage writes a file whole or not at all. One that is there and differs is kept
// without force.
func writePackage(path string, force bool, write func(io.Writer) error) error {
	var differs error
	err := writeWhole(path, func(f *os.File) error {
		err := write(f)
		if err == nil {
			err = f.Chmod(0o644) // no secret in a package
		}
		if err != nil || force {
			return err
		}
		same, err := sameAs(path, f)
		if err == nil && !same {
			differs = errorWithHint{
				fmt.Errorf("nothing was written: %s is there, and differs from this package", path),
				"write into another file to keep it; --force replaces it",
			}
			return differs
		}
		return err
	})
	if err != nil && differs == nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return err
}

// sameAs says whether the file at path has what f has, or is not there.
func sameAs(path string, f *os.File) (bool, error) {
	there, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer there.Close()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	const piece = 64 << 10
	old, made := make([]byte, piece), make([]byte, piece)
	for {
		n, oldErr := io.ReadFull(there, old)
		m, err := io.ReadFull(f, made)
		if !bytes.Equal(old[:n], made[:m]) {
			return false, nil
		}
		for _, err := range []error{oldErr, err} {
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return false, err
			}
		}
		if n < piece {
			return true, nil
		}
	}
}
