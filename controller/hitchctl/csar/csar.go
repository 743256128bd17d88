// Package csar builds VNF packages for Tacker: the HOT templates of this program, a VNFD that
// says the same of them, the files that make Tacker call nodehitch, and the user's own files.
// The same input gives the same bytes.
package csar

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/google/uuid"
	"sigs.k8s.io/yaml"

	"github.com/nodehitch/nodehitch/cloudinit"
	"github.com/nodehitch/nodehitch/cloudinit/hot"
	"github.com/nodehitch/nodehitch/packaging/tacker/shim"
)

// Places in a package.
const (
	definitionsDir = "Definitions/"
	entryFile      = "nodehitch_top.vnfd.yaml"
	typesFile      = "nodehitch_types.yaml"
	// userDataFile is where the specification's requests name it.
	userDataFile = "UserData/k8s_cluster_user_data.py"
)

func flavourFile(id string) string { return "nodehitch_df_" + id + ".yaml" }

// typesURL is where ETSI publishes the type definitions whose names follow.
const typesURL = "https://forge.etsi.org/rep/nfv/SOL001/raw/v2.6.1/"

// TypeFiles are ETSI's type definitions, which the VNFD imports. They carry no licence, so
// this program does not have them.
var TypeFiles = []string{"etsi_nfv_sol001_common_types.yaml", "etsi_nfv_sol001_vnfd_types.yaml"}

// namespace is of the VNFD ids: version 5 UUIDs.
var namespace = uuid.MustParse("6a1b0d6e-2f0e-5d0c-9c39-1b6a4c9f7a52")

var flavourGrammar = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// Options are what a package is made of.
type Options struct {
	// Template is one of hot.Flavours.
	Template string
	// FlavourID is what requests call the deployment flavour.
	FlavourID string
	API       hot.API
	// Controller gives the base HOT defaults, nil for none. Its join token is not used.
	Controller *cloudinit.Params
	// Types has ETSI's TypeFiles at its top; nil imports them from ETSI's server.
	Types fs.FS
	// Files are the user's own, by their paths in the package; nil for none.
	Files fs.FS
	// ClusterScript is the path of one of Files, then not nil, which goes into the user_data of masters and
	// workers; empty for none.
	ClusterScript string
	// Flavors and Images are by the VDU, with "" for all that are not named. The image is the
	// name of one that Glance has, or the path of a file in Files.
	Flavors, Images map[string]string
}

// Package is a package that can be written.
type Package struct {
	// VNFDID is made of the content: Tacker refuses a second package with the same.
	VNFDID  string
	Servers []Server
	files   []file
}

// Server is what the servers of a VDU are started with.
type Server struct{ VDU, Flavor, Image string }

// file is one of a package.
type file struct {
	name   string
	open   func() (io.ReadCloser, error)
	mode   fs.FileMode
	size   int64
	sha256 []byte
}

// Count is how many files the package has.
func (p *Package) Count() int { return len(p.files) }

// builder collects files and faults.
type builder struct {
	Options
	files  map[string]file
	faults []error
}

func (b *builder) fault(format string, args ...any) {
	b.faults = append(b.faults, fmt.Errorf(format, args...))
}

// Build reads everything once and says what the package will have. The error has every fault.
func Build(o Options) (*Package, error) {
	b := &builder{Options: o, files: map[string]file{}}
	if !slices.Contains(hot.Flavours, o.Template) || o.API != hot.V1 && o.API != hot.V2 {
		return nil, fmt.Errorf("there is no template %q for the API %q", o.Template, o.API)
	}
	if !flavourGrammar.MatchString(o.FlavourID) {
		b.fault("flavour id %q: expected up to 63 letters, digits, dots, - and _, a letter or digit first", o.FlavourID)
	}
	base := b.templates()
	driver := b.tacker()
	b.types()
	b.own()
	v := &vnfd{product: cluster, baseHOT: base, flavour: o.FlavourID, driver: driverName, artifact: driver, api: o.API}
	if o.Template == "registry" {
		v.product = registry
	}
	b.servers(v)
	if err := errors.Join(b.faults...); err != nil {
		return nil, err
	}
	if err := b.vnfd(v); err != nil {
		return nil, err
	}
	p := &Package{VNFDID: v.id, files: b.sorted()}
	for _, u := range v.vdus {
		p.Servers = append(p.Servers, Server{u.name, v.flavors[u.name], v.images[u.name].Name})
	}
	p.files = slices.Insert(p.files, 0, inMemory(MetaFile, meta(p.files)))
	return p, nil
}

func (b *builder) sorted() []file {
	return slices.SortedFunc(maps.Values(b.files), func(x, y file) int { return cmp.Compare(x.name, y.name) })
}

func inMemory(name string, content []byte) file {
	sum := sha256.Sum256(content)
	return file{
		name: name, mode: 0o644, size: int64(len(content)), sha256: sum[:],
		open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
	}
}

func (b *builder) add(name string, content []byte) { b.files[name] = inMemory(name, content) }

// templates adds the base HOT.
func (b *builder) templates() *baseHOT {
	top, nested := hot.BaseHOT(b.Template, b.API)
	if b.Controller != nil {
		with, err := hot.WithController(top, *b.Controller)
		if err != nil {
			b.faults = append(b.faults, err)
		} else {
			top = with
		}
	}
	if b.ClusterScript != "" {
		top = b.withClusterScript(top)
	}
	dir := "BaseHOT/" + b.FlavourID + "/"
	b.add(dir+b.FlavourID+".yaml", []byte(top))
	for name, text := range nested {
		b.add(dir+"nested/"+name, []byte(text))
	}
	base, err := readBaseHOT(top, nested)
	if err != nil {
		b.faults = append(b.faults, err)
		return &baseHOT{}
	}
	return base
}

// withClusterScript is the base HOT with the script in the user_data of masters and workers.
func (b *builder) withClusterScript(top string) string {
	content, err := fs.ReadFile(b.Files, path.Clean(b.ClusterScript))
	if err != nil {
		b.fault("the cluster's script: %w; expected its path in the directory with your files", err)
		return top
	}
	script, err := cloudinit.PackClusterScript(content)
	if err != nil {
		b.fault("%s: %w", b.ClusterScript, err)
		return top
	}
	with := hot.WithClusterScript(top, script)
	if with == top {
		b.fault("%s: %s has no masters and workers, which run the cluster's script", b.ClusterScript, b.Template)
	}
	return with
}

// driverName is what Tacker's configuration and the VNFD call the driver.
const driverName = "nodehitch"

// tacker adds what Tacker runs, and returns how the VNFD names the driver: the v1 API takes
// the path within the package, the v2 API the one beside the VNFD.
func (b *builder) tacker() (artifact string) {
	b.add("UserData/__init__.py", nil)
	if b.API == hot.V1 {
		b.add(userDataFile, shim.UserDataV1)
		b.add("Scripts/nodehitch_mgmt.py", shim.Driver)
		return "Scripts/nodehitch_mgmt.py"
	}
	b.add(userDataFile, shim.UserDataV2)
	b.add(definitionsDir+"nodehitch_script.py", shim.Script)
	return "nodehitch_script.py"
}

// types adds the user's copy of ETSI's type definitions.
func (b *builder) types() {
	if b.Types == nil {
		return
	}
	for _, name := range TypeFiles {
		text, err := fs.ReadFile(b.Types, name)
		if err != nil {
			b.fault("ETSI's type definitions: %w", err)
			continue
		}
		b.add(definitionsDir+name, text)
	}
}

// imports is how the VNFD names ETSI's type definitions.
func (b *builder) imports() (names []string) {
	for _, name := range TypeFiles {
		if b.Types == nil {
			name = typesURL + name
		}
		names = append(names, name)
	}
	return names
}

// own adds the user's files.
func (b *builder) own() {
	if b.Files == nil {
		return
	}
	err := fs.WalkDir(b.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		_, made := b.files[name]
		made = made || name == MetaFile || slices.Contains(b.vnfdFiles(), name)
		switch why := unfit(name); {
		case !entry.Type().IsRegular():
			b.fault("%s is no regular file; put the file itself there", name)
		case why != "":
			b.fault("%q %s; rename it", name, why)
		case made:
			b.fault("%s is made by this command; remove yours, or move it", name)
		default:
			return b.ownFile(name)
		}
		return nil
	})
	if err != nil {
		b.fault("reading your files: %w", err)
	}
}

// vnfdFiles are the paths of the VNFD.
func (b *builder) vnfdFiles() []string {
	return []string{definitionsDir + entryFile, definitionsDir + typesFile, definitionsDir + flavourFile(b.FlavourID)}
}

// unfit says why a name cannot be in TOSCA.meta, "" if it can. Tacker reads that as YAML.
func unfit(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(`\:"`, r) }) {
		return `has a character that a name in a package cannot have (\, : or " or one that is not printable)`
	}
	var read struct{ Name any }
	if err := yaml.Unmarshal([]byte("Name: "+name), &read); err != nil || read.Name != name {
		return "is not plain text in YAML, as which Tacker reads TOSCA.meta"
	}
	return ""
}

func (b *builder) ownFile(name string) error {
	info, err := fs.Stat(b.Files, name)
	if err != nil {
		return err
	}
	f := file{name: name, mode: 0o644, open: func() (io.ReadCloser, error) { return b.Files.Open(name) }}
	if info.Mode().Perm()&0o111 != 0 {
		f.mode = 0o755
	}
	sum := sha256.New()
	if f.size, err = f.digest(sum); err != nil {
		return err
	}
	f.sha256 = sum.Sum(nil)
	b.files[name] = f
	return nil
}

// digest reads the whole file into the hash.
func (f file) digest(sum hash.Hash) (int64, error) {
	content, err := f.open()
	if err != nil {
		return 0, err
	}
	defer content.Close()
	return io.Copy(sum, content)
}

// servers gives each VDU its flavor and image.
func (b *builder) servers(v *vnfd) {
	v.flavors, v.images = map[string]string{}, map[string]Image{}
	var known []string
	for _, u := range v.vdus {
		known = append(known, u.name)
		v.flavors[u.name] = of(b.Flavors, u.name)
		v.images[u.name] = b.image(of(b.Images, u.name), u.name)
		for _, each := range [][2]string{{"flavor", v.flavors[u.name]}, {"image", v.images[u.name].Name}} {
			if found := hot.Unkept(each[1]); found != "" && b.API == hot.V1 {
				b.fault("%s %q of %s: its name holds %s, which Tacker's v1 API alters at each heal; use one of another name", each[0], each[1], u.name, found)
			}
		}
	}
	for what, given := range map[string]map[string]string{"flavor": b.Flavors, "image": b.Images} {
		for _, name := range slices.Sorted(maps.Keys(given)) {
			switch {
			case name != "" && !slices.Contains(known, name):
				b.fault("%s of %s: %s has no such VDU; expected one of %s", what, name, b.Template, strings.Join(known, ", "))
			case given[name] == "" || strings.ContainsFunc(given[name], unicode.IsControl):
				b.fault("%s %q: expected its name", what, given[name])
			}
		}
	}
}

func of(values map[string]string, vdu string) string {
	if value, own := values[vdu]; own {
		return value
	}
	return values[""]
}

// diskFormats are Glance's, by the ends of files' names.
var diskFormats = map[string]string{
	".img": "qcow2", ".qcow2": "qcow2", ".raw": "raw", ".vmdk": "vmdk", ".vhd": "vhd", ".vhdx": "vhdx", ".vdi": "vdi", ".iso": "iso",
}

// image is a file of the user's, or the name of an image in Glance. Of that one Tacker uses
// only the name; SOL001 wants the rest to be there. A file is uploaded for each VDU, and Heat
// finds the image by its name.
func (b *builder) image(name, vdu string) Image {
	f, there := b.files[name]
	ext := path.Ext(name)
	if !there {
		if strings.Contains(name, "/") && diskFormats[ext] != "" {
			b.fault("image %s is not among your files; put it there, or name an image that Glance has", name)
		}
		return Image{Name: name, SHA512: "unknown", DiskFormat: "qcow2"}
	}
	if diskFormats[ext] == "" {
		b.fault("image %s: its name does not end in a disk format; expected one of %s", name,
			strings.Join(slices.Sorted(maps.Keys(diskFormats)), ", "))
	}
	sum := sha512.New()
	if _, err := f.digest(sum); err != nil {
		b.fault("image %s: %w", name, err)
	}
	return Image{
		Name: strings.TrimSuffix(path.Base(name), ext) + "-" + vdu, Path: name, DiskFormat: diskFormats[ext],
		SHA512: hex.EncodeToString(sum.Sum(nil)), Bytes: f.size,
	}
}

// vnfd adds the VNFD. Its id is that of everything in the package, itself without id.
func (b *builder) vnfd(v *vnfd) error {
	v.imports = b.imports()
	v.id = uuid.Nil.String()
	files, err := v.definitions()
	if err != nil {
		return err
	}
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "%s %x\n", name, sha256.Sum256(files[name]))
	}
	for _, f := range b.sorted() {
		fmt.Fprintf(sum, "%s %x %v\n", f.name, f.sha256, f.mode)
	}
	v.id = uuid.NewSHA1(namespace, sum.Sum(nil)).String()
	if files, err = v.definitions(); err != nil {
		return err
	}
	for name, text := range files {
		b.add(name, text)
	}
	return nil
}
