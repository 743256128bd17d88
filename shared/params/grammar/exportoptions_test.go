package grammar_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

func TestExportOptionsAreCompleted(t *testing.T) {
	for given, want := range map[string]string{
		"":                                   "rw,sync,no_subtree_check,insecure,all_squash",
		"ro":                                 "ro,sync,no_subtree_check,insecure,all_squash",
		"sync,rw":                            "rw,sync,no_subtree_check,insecure,all_squash",
		"no_root_squash":                     "rw,sync,no_subtree_check,insecure,no_root_squash",
		"sec=krb5i:krb5p,root_squash,ro":     "ro,sync,no_subtree_check,insecure,root_squash,sec=krb5i:krb5p",
		"sec=sys,anongid=0,anonuid=1000":     "rw,sync,no_subtree_check,insecure,all_squash,anonuid=1000,anongid=0,sec=sys",
		"root_squash,anonuid=1000":           "rw,sync,no_subtree_check,insecure,root_squash,anonuid=1000",
		"anonuid=0,all_squash":               "rw,sync,no_subtree_check,insecure,all_squash,anonuid=0",
		"insecure,no_subtree_check,sync":     "rw,sync,no_subtree_check,insecure,all_squash",
		"anonuid=2147483647":                 "rw,sync,no_subtree_check,insecure,all_squash,anonuid=2147483647",
		"no_root_squash,sec=sys:krb5:krb5i":  "rw,sync,no_subtree_check,insecure,no_root_squash,sec=sys:krb5:krb5i",
		"root_squash,anongid=0,anonuid=1000": "rw,sync,no_subtree_check,insecure,root_squash,anonuid=1000,anongid=0",
	} {
		options := list(given)
		if err := errors.Join(grammar.ExportOptions(options)...); err != nil {
			t.Errorf("%s: %v", given, err)
		}
		complete := grammar.CompleteExportOptions(options)
		if diff := cmp.Diff(want, strings.Join(complete, ",")); diff != "" {
			t.Errorf("%s: %s", given, diff)
		}
		if again := grammar.CompleteExportOptions(complete); !slices.Equal(again, complete) || errors.Join(grammar.ExportOptions(complete)...) != nil {
			t.Errorf("%s: the complete list is completed to %v", given, again)
		}
	}
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// The fault is at the last option.
func TestExportOptionsThatAreRefused(t *testing.T) {
	for given, word := range map[string]string{
		"async":                                 "is not an export option that is offered",
		"secure":                                "offered",
		"subtree_check":                         "offered",
		"crossmnt":                              "offered",
		"fsid=0":                                "offered",
		"mountpoint=/":                          "offered",
		"no_all_squash":                         "offered",
		"RO":                                    "offered",
		"ro ":                                   "offered",
		"rw) *(rw":                              "offered",
		"sync\n/etc *(rw)":                      "offered",
		"anonuid":                               "offered",
		"rw=1":                                  "offered",
		"anonuid=":                              "user or group id",
		"anonuid=-1":                            "user or group id",
		"anongid=01":                            "user or group id",
		"anongid=2147483648":                    "user or group id",
		"anonuid=nobody":                        "user or group id",
		"sec=":                                  "flavour",
		"sec=none":                              "flavour",
		"sec=krb5:":                             "flavour",
		"sec=krb5:krb5":                         "twice",
		"ro,ro":                                 "twice",
		"ro,rw":                                 "contradicts ro",
		"root_squash,no_root_squash":            "contradicts root_squash",
		"all_squash,no_root_squash":             "contradicts all_squash",
		"no_root_squash,sec=sys,all_squash":     "contradicts no_root_squash",
		"anonuid=1,anonuid=2":                   "contradicts anonuid=1",
		"sec=sys,sec=krb5":                      "contradicts sec=sys",
		"no_root_squash,anonuid=1000":           "contradicts no_root_squash",
		"no_root_squash,anongid=1000":           "contradicts no_root_squash",
		"root_squash,anonuid=0":                 "contradicts root_squash",
		"root_squash,anongid=1,ro,sync,async":   "offered",
		"all_squash,anonuid=1000,sec=krb5:sys,": "empty",
	} {
		options := strings.Split(given, ",")
		faults := grammar.ExportOptions(options)
		if n := len(faults); n != len(options) || faults[n-1] == nil || !strings.Contains(faults[n-1].Error(), word) {
			t.Errorf("%s: got %v, want %q at the last", given, faults, word)
			continue
		}
		if err := errors.Join(faults[:len(faults)-1]...); err != nil {
			t.Errorf("%s: also %v", given, err)
		}
	}
}

func TestTheAccountOfAnExport(t *testing.T) {
	for given, want := range map[string]struct {
		account string
		owns    bool
	}{
		"rw,all_squash":                        {"65534:65534", true},
		"rw,all_squash,anonuid=1000":           {"1000:65534", true},
		"rw,all_squash,anonuid=1000,anongid=0": {"1000:0", true},
		"ro,all_squash":                        {"65534:65534", false},
		"rw,root_squash,anonuid=1000":          {"1000:65534", false},
		"rw,no_root_squash":                    {"65534:65534", false},
		"all_squash":                           {"65534:65534", false}, // exports(5) takes it as read only
		"":                                     {"65534:65534", false},
		"rw,sync,no_subtree_check,insecure,sec=sys,all_squash": {"65534:65534", true},
	} {
		if account, owns := grammar.ExportAccount(list(given)); account.String() != want.account || owns != want.owns {
			t.Errorf("%s: got %s, %t", given, account, owns)
		}
	}
}

// FuzzExportOptions asserts that what is taken cannot end an option list of an exports
// file, and that its completion is taken too.
func FuzzExportOptions(f *testing.F) {
	f.Add("ro,no_root_squash,anonuid=1,sec=sys")
	f.Add("rw)\n/ *(rw")
	f.Fuzz(func(t *testing.T, text string) {
		options := list(text)
		for i, err := range grammar.ExportOptions(options) {
			if err == nil && strings.Trim(options[i], "abcdefghijklmnopqrstuvwxyz0123456789_=:") != "" {
				t.Errorf("takes %q", options[i])
			}
		}
		if errors.Join(grammar.ExportOptions(options)...) == nil {
			if err := errors.Join(grammar.ExportOptions(grammar.CompleteExportOptions(options))...); err != nil {
				t.Errorf("%q is taken, its completion is not: %v", text, err)
			}
		}
	})
}
