package cases

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nodehitch/nodehitch/e2e/lab"
	"github.com/nodehitch/nodehitch/shared/strict"
)

// Case is the content of a folder's case.yaml.
type Case struct {
	// Title says what the case shows, in one sentence.
	Title string `json:"title"`
	// Machine is what it runs on: vm, the default, or nspawn, which takes seconds and is
	// enough if a case is about what disks hold. A container has no udev, no kernel of its
	// own and no NFS server.
	Machine lab.Kind `json:"machine,omitempty"`
	// Suite is full for a long case, which only `make e2e` runs, and brief for one that
	// `make test` runs too.
	Suite string `json:"suite,omitempty"`
	// Disks are attached when the machine boots.
	Disks []Disk `json:"disks"`
	// Exports are the directories to export to the lab's network.
	Exports []string `json:"exports"`
	// ExportOptions are the options of exports that have others than the default.
	ExportOptions map[string][]string `json:"exportOptions,omitempty"`
	Steps         []Step              `json:"steps"`
}

// Disk is a Cinder volume of the storage VM.
type Disk struct {
	// Name is the volume_resource_id.
	Name string `json:"name"`
	// MiB is its size in mebibytes, or Size in bytes; ToldMiB what the topology says, if
	// not the same.
	MiB     int64 `json:"mib,omitempty"`
	Size    int64 `json:"size,omitempty"`
	ToldMiB int64 `json:"toldMib,omitempty"`
	// MountTo is where it belongs.
	MountTo string `json:"mountTo"`
	// Holds is written onto it in this order; nothing = blank.
	Holds []Content `json:"holds,omitempty"`
	// Clones names the disk that this one is a copy of, Twins the one whose serial number
	// it shares, because their ids begin alike.
	Clones string `json:"clones,omitempty"`
	Twins  string `json:"twins,omitempty"`
	// Later: it is not attached when the first machine boots. Stray: no parameter and no
	// topology names it.
	Later bool `json:"later,omitempty"`
	Stray bool `json:"stray,omitempty"`
	// Faults make its reads and writes fail; a VM's only.
	Faults []Fault `json:"faults,omitempty"`
}

// Fault is a lab.Fault.
type Fault struct {
	// Sector of 512 bytes that a request has to touch; -1 means any.
	Sector int64 `json:"sector"`
	// Write makes writes fail, otherwise reads.
	Write bool `json:"write,omitempty"`
	// Once lets only the first such request fail.
	Once bool `json:"once,omitempty"`
}

// Content is one thing that a disk holds; exactly one member is given.
type Content struct {
	// Make is a program that writes to the disk's file, such as
	// [mkfs.xfs, -q]; the file's path is added at the end. The word ASSIGNED is
	// replaced by the filesystem UUID that the controller assigns.
	Make []string `json:"make,omitempty"`
	// Files are put into an ext4 filesystem: path to text.
	Files map[string]string `json:"files,omitempty"`
	// Crash are files that are written to the ext4 on the disk and synced, just before
	// its machine crashes: path to text. Their names are in the journal alone.
	Crash map[string]string `json:"crash,omitempty"`
	// Bytes is raw content at an offset.
	Bytes *Bytes `json:"bytes,omitempty"`
}

// Bytes is raw content; one member beside Offset is given.
type Bytes struct {
	Offset int64  `json:"offset"`
	Text   string `json:"text,omitempty"`
	// Hex is pairs of digits, spaces between them.
	Hex string `json:"hex,omitempty"`
	// Zeros and Random are how many bytes: zeros, or random ones, always the same.
	Zeros  int `json:"zeros,omitempty"`
	Random int `json:"random,omitempty"`
}

// Step is one thing that happens, and what is true after it.
type Step struct {
	// Do is the name of a step; see the families in steps_*_test.go.
	Do string `json:"do"`
	// Disk is the disk that it is about, if any.
	Disk string `json:"disk,omitempty"`
	// MiB is the disk's new size, for `extend`.
	MiB int64 `json:"mib,omitempty"`
	// Run is an argv for the machine, for `exec`.
	Run []string `json:"run,omitempty"`
	// Expect is what must become true within stepLimit.
	Expect *Expect `json:"expect,omitempty"`
	// Faults are those that the disk has from now on, for `faults`; none = it has none.
	Faults []Fault `json:"faults,omitempty"`
}

// Expect is what an observer sees from outside.
type Expect struct {
	// Conditions by type: "True Mounted", "False ForeignData".
	Conditions map[string]string `json:"conditions,omitempty"`
	// Message is text that the message of a condition must contain, by type.
	Message map[string]string `json:"message,omitempty"`
	// Messages is the same for several texts.
	Messages map[string][]string `json:"messages,omitempty"`
	// Permit is the state of each disk's permit at the controller.
	Permit map[string]string `json:"permit,omitempty"`
	// Mounted says for each disk whether it is mounted where it belongs.
	Mounted map[string]bool `json:"mounted,omitempty"`
	// Exported lists exactly what the kernel's export table has; of a container what
	// the file of our exports has.
	Exported []string `json:"exported,omitempty"`
	// Unchanged names disks that are, byte for byte, as they were before the first step.
	Unchanged []string `json:"unchanged,omitempty"`
	// Files are texts on the machine, by path.
	Files map[string]string `json:"files,omitempty"`
	// Journal is how far the machine's journal of each disk's format has come, "" for
	// none. The permit in it must be the same all along.
	Journal map[string]string `json:"journal,omitempty"`
	// Withheld is exactly what the controller withholds from the server: "storage MultiAttached".
	Withheld []string `json:"withheld,omitempty"`
	// Active are units of systemd that are.
	Active []string `json:"active,omitempty"`
	// Refused is text of the controller's error answer to the agent, as the machine's own
	// status has it.
	Refused string `json:"refused,omitempty"`
}

// check completes a case and returns what is invalid in it.
func (c *Case) check() error {
	switch {
	case c.Machine == "":
		c.Machine = lab.KindVM
	case c.Machine != lab.KindVM && c.Machine != lab.KindNspawn:
		return fmt.Errorf("machine %q: want %s or %s", c.Machine, lab.KindVM, lab.KindNspawn)
	}
	for i, d := range c.Disks {
		if d.Size == 0 {
			c.Disks[i].Size = d.MiB << 20
		}
	}
	if c.Suite != "" && c.Suite != "full" && c.Suite != "brief" {
		return fmt.Errorf("suite %q: want brief, full or nothing", c.Suite)
	}
	return nil
}

// alone says that no other case may run meanwhile: it stops the shared controller, or its
// machine, which may be emulated, needs all processors.
func (c *Case) alone() bool {
	return c.Machine == lab.KindVM || slices.ContainsFunc(c.Steps, func(s Step) bool { return strings.HasSuffix(s.Do, "-controller") })
}

// stepLimit is how long a step may take: an emulated machine has needed four minutes to boot.
const stepLimit = 6 * time.Minute

// load reads every case of this folder.
func load() (map[string]Case, error) {
	files, err := filepath.Glob("*/case.yaml")
	if err != nil {
		return nil, err
	}
	cases := map[string]Case{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var c Case
		if err := errors.Join(strict.Unmarshal(data, &c), c.check()); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		cases[filepath.Dir(file)] = c
	}
	return cases, nil
}
