package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nodehitch/nodehitch/shared/strict"
)

// Case is the content of a folder's case.yaml.
type Case struct {
	// Title says what the case shows, in one sentence.
	Title string `json:"title"`
	// Disks are attached when the machine boots.
	Disks []Disk `json:"disks"`
	// Exports are the directories to export to the lab's network.
	Exports []string `json:"exports"`
	Steps   []Step   `json:"steps"`
}

// Disk is a Cinder volume of the storage VM.
type Disk struct {
	// Name is the volume_resource_id.
	Name string `json:"name"`
	// MiB is its size in mebibytes; ToldMiB what the topology says, if not the same.
	MiB     int64 `json:"mib"`
	ToldMiB int64 `json:"toldMib,omitempty"`
	// MountTo is where it belongs.
	MountTo string `json:"mountTo"`
	// Holds is written onto it in this order; nothing = blank.
	Holds []Content `json:"holds,omitempty"`
}

// Content is one thing that a disk holds; exactly one member is given.
type Content struct {
	// Make is a program that writes to the disk's file, such as
	// [mkfs.xfs, -q]; the file's path is added at the end. The word ASSIGNED is
	// replaced by the filesystem UUID that the controller assigns.
	Make []string `json:"make,omitempty"`
	// Files are put into an ext4 filesystem: path to text.
	Files map[string]string `json:"files,omitempty"`
	// Bytes is text written at an offset.
	Bytes *Bytes `json:"bytes,omitempty"`
}

// Bytes is raw content.
type Bytes struct {
	Offset int64  `json:"offset"`
	Text   string `json:"text"`
}

// Step is one thing that happens, and what is true after it.
type Step struct {
	// Do is the name of a step; see the table in steps_test.go.
	Do string `json:"do"`
	// Disk is the disk that it is about, where it is about one.
	Disk string `json:"disk,omitempty"`
	// Run is an argv for the machine, for `exec`.
	Run []string `json:"run,omitempty"`
	// Expect is what must become true within Within (default 90s).
	Expect *Expect `json:"expect,omitempty"`
	Within string  `json:"within,omitempty"`
}

// Expect is what an observer sees from outside.
type Expect struct {
	// Conditions by type: "True Mounted", "False ForeignData".
	Conditions map[string]string `json:"conditions,omitempty"`
	// Message is text that the message of a condition must contain, by type.
	Message map[string]string `json:"message,omitempty"`
	// Permit is the state of each disk's permit at the controller.
	Permit map[string]string `json:"permit,omitempty"`
	// Mounted says for each disk whether it is mounted where it belongs.
	Mounted map[string]bool `json:"mounted,omitempty"`
	// Exported lists exactly what the kernel's export table has.
	Exported []string `json:"exported,omitempty"`
	// Unchanged names disks that are, byte for byte, as they were before the first step.
	Unchanged []string `json:"unchanged,omitempty"`
	// Files are texts on the machine, by path.
	Files map[string]string `json:"files,omitempty"`
}

func (s Step) limit() (time.Duration, error) {
	if s.Within == "" {
		return 90 * time.Second, nil
	}
	return time.ParseDuration(s.Within)
}

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
		if err := strict.Unmarshal(data, &c); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		cases[filepath.Dir(file)] = c
	}
	return cases, nil
}
