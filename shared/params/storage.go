package params

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/nodehitch/nodehitch/shared/fault"
	"github.com/nodehitch/nodehitch/shared/params/grammar"
)

func (o *object) storageServer() *StorageServer {
	if o == nil {
		return nil
	}
	s := &StorageServer{
		SSHCPName: text(o, keySSHCP, required, grammar.ResourceName),
		NICCPName: text(o, keyNICCP, optional, grammar.ResourceName),
		VduID:     text(o, keyVduID, optional, grammar.ResourceName),
		Username:  text(o, keyUsername, optional, grammar.UserName),
		Password:  o.secret(keyPassword),

		KeepVolumes: text(o, keyAtHeal, optional, atHeal) == keepVolumes,
	}
	volumes, exports := o.objects(keyVolumes, required), o.objects(keyExports, required)
	for _, v := range volumes {
		s.Volumes = append(s.Volumes, v.volume())
	}
	for _, e := range exports {
		s.Exports = append(s.Exports, e.export())
	}
	o.close()
	o.checkVolumes(s.Volumes)
	o.checkExports(s)
	if s.KeepVolumes {
		o.checkKept(s)
	}
	return s
}

// The texts of persistent_volumes_at_heal.
const keepVolumes, withdrawVolumes = "keep", "withdraw"

func atHeal(s string) (string, error) {
	if s != keepVolumes && s != withdrawVolumes {
		return "", fmt.Errorf("is %s; expected %q or %q", grammar.Show(s), keepVolumes, withdrawVolumes)
	}
	return s, nil
}

// checkKept finds exports that would let clients at the record of the NFS server's clients,
// which lies on the volume: by its path, or as root by a handle that is guessed.
func (o *object) checkKept(s *StorageServer) {
	for i, e := range s.Exports {
		at := o.at.Key(keyExports).Index(i)
		own := path.Join(e.MountTo, ownDirectory)
		switch {
		case e.MountTo == "" || e.Directory == "":
		case e.Directory == e.MountTo:
			o.r.fault(at.Key(keyExportDir), "%q is the whole volume; with %s %q the volume also has the record of the NFS server's clients, which no client may reach: export a directory below it",
				e.Directory, keyAtHeal, keepVolumes)
		case grammar.Under(e.Directory, own):
			o.r.fault(at.Key(keyExportDir), "%q is nodehitch's own directory of the volume, or lies below it, with %s %q; export another one", e.Directory, keyAtHeal, keepVolumes)
		}
		if slices.Contains(e.Options, grammar.NoRootSquash) {
			o.r.fault(at.Key(keyOptions), "has %q; with %s %q a client that is root could reach the record of the NFS server's clients by a handle that it guesses: leave it out",
				grammar.NoRootSquash, keyAtHeal, keepVolumes)
		}
	}
}

// CheckFirstVolume is what parameters would change on which the NFS server's clients rely while
// PersistentVolumes are kept: they know the server by the first volume, which also has their record.
// before are those in force; at is the place of additionalParams.
func CheckFirstVolume(before, after *Params, at fault.At) fault.List {
	b, a := before.keeping(), after.keeping()
	if b == nil || a == nil {
		return nil
	}
	was, is := b.Volumes[b.first()], a.Volumes[a.first()]
	if was.ResourceID == is.ResourceID {
		return nil
	}
	volumes := at.Key(keyCluster).Key(keyStorage).Key(keyVolumes)
	why := fmt.Sprintf("with %s %q that stays %q, by which the NFS server's clients know it and which has their record", keyAtHeal, keepVolumes, was.ResourceID)
	or := fmt.Sprintf("or say %q first, then change the volumes, heal the storage server, and say %q again", withdrawVolumes, keepVolumes)
	if !slices.ContainsFunc(a.Volumes, func(v Volume) bool { return v.ResourceID == was.ResourceID }) {
		return fault.List{volumes.Fault(fmt.Sprintf("leaves %q out, which is the first volume in the order of %s; %s: keep the volume %q in the list, before each other one in that order, %s",
			was.ResourceID, keyMountTo, why, was.ResourceID, or))}
	}
	return fault.List{volumes.Index(a.first()).Key(keyMountTo).Fault(fmt.Sprintf("%q makes %q the first volume in the order of %s; %s: give each other volume a later %s, %s",
		is.MountTo, is.ResourceID, keyMountTo, why, keyMountTo, or))}
}

// keeping is the storage server if a heal keeps its PersistentVolumes, nil for none.
func (p *Params) keeping() *StorageServer {
	if p == nil || p.Cluster == nil || p.Cluster.StorageServer == nil || !p.Cluster.StorageServer.KeepVolumes {
		return nil
	}
	return p.Cluster.StorageServer
}

func (o *object) volume() Volume {
	v := Volume{
		ResourceID: text(o, keyResource, required, grammar.ResourceName),
		MountTo:    o.normal(keyMountTo, required, slashed(grammar.MountPath)),
	}
	o.close()
	return v
}

// slashed lets a path have redundant slashes.
func slashed(parse func(string) (string, error)) func(string) (string, error) {
	return func(s string) (string, error) { return parse(grammar.WithoutEmptyParts(s)) }
}

// checkVolumes finds resources and directories given twice, and directories
// inside others: which volume is mounted first would decide what is seen.
func (o *object) checkVolumes(volumes []Volume) {
	at := o.at.Key(keyVolumes)
	resources, mounts := newFirsts(), newFirsts()
	for i, v := range volumes {
		if first, again := resources.seen(v.ResourceID, i); again {
			o.r.fault(at.Index(i).Key(keyResource), "%q is mounted by element %d already; a volume is mounted once", v.ResourceID, first)
		}
		if first, again := mounts.seen(v.MountTo, i); again {
			o.r.fault(at.Index(i).Key(keyMountTo), "%q is the directory of element %d already; each volume needs its own", v.MountTo, first)
		}
	}
	for i, v := range volumes {
		if outer, ok := mounts.above(v.MountTo); ok {
			o.r.fault(at.Index(i).Key(keyMountTo), "%q lies inside %q, the directory of element %d; mount the volumes side by side",
				v.MountTo, volumes[outer].MountTo, outer)
		}
	}
}

// firsts remembers the element that said a text first.
type firsts map[string]int

func newFirsts() firsts { return make(firsts) }

// seen says which element said the text before. The empty text, which stands
// for an attribute that was refused, is never seen.
func (f firsts) seen(text string, i int) (first int, again bool) {
	if text == "" {
		return 0, false
	}
	if first, again = f[text]; !again {
		f[text] = i
	}
	return first, again
}

// above is the element whose clean path is the nearest parent of path.
func (f firsts) above(path string) (int, bool) {
	for cut := strings.LastIndexByte(path, '/'); cut > 0; cut = strings.LastIndexByte(path[:cut], '/') {
		if i, ok := f[path[:cut]]; ok {
			return i, true
		}
	}
	return 0, false
}

// at is the element whose clean path is path, or else its nearest parent.
func (f firsts) at(path string) (int, bool) {
	if i, ok := f[path]; ok {
		return i, true
	}
	return f.above(path)
}
