package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io"
	"strings"
)

// content is what a page shows, in the words of its template.
type content struct {
	// name is the template of what changes.
	name string
	// title is the name of the page; lead one sentence about a list.
	title, lead string
	// section is the path in the navigation that the page belongs to, "" for its own.
	section string
	// filter stands outside of what changes, so that a swap takes nothing from who types.
	filter *filter
	// changed are the events that make the page another one; without any it is not live.
	changed []string
	// bare is a page without navigation, for those who have not signed in.
	bare bool
	data any
}

//go:embed templates/*.html
var templateFiles embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"asset":   assetPath,
	"prose":   prose,
	"squares": squares,
	"rows":    func(list any, own bool) table { return table{list, own} },
	"sum":     func(a, b int) int { return a + b },
	"plural": func(n int, one, many string) string {
		if n == 1 {
			return one
		}
		return many
	},
}).ParseFS(templateFiles, "templates/*.html"))

// table is the rows of a table. On the page of their instance, and of a node of it, a column with its name
// would only repeat it: Own leaves it out.
type table struct {
	Rows any
	Own  bool
}

// shell is what stands around the content.
type shell struct {
	Title, Lead, Token, Version string
	Nav                         []navLink
	Filter                      *filter
	Triggers, URL, Events, ETag string
	SignOut                     string
	// Main is what html/template has written already.
	Main     template.HTML
	Rendered stamp
	Bare     bool
}

// navLink is a section in the navigation.
type navLink struct {
	Path, Text string
	Present    bool
}

func write(w io.Writer, f Frame, v View) error {
	c := v.content(f)
	if f.Fragment && !c.bare {
		return templates.ExecuteTemplate(w, c.name, c.data)
	}
	var main bytes.Buffer
	if err := templates.ExecuteTemplate(&main, c.name, c.data); err != nil {
		return err
	}
	s := shell{Title: c.title, Lead: c.lead, Token: f.Token, Version: f.Version, Filter: c.filter, SignOut: PathSignOut, Bare: c.bare,
		Main: template.HTML(main.String()), Rendered: f.both(&f.Now)}
	if f.URL != nil {
		s.URL = f.URL.RequestURI()
		s.Nav = navigation(f, c)
	}
	if len(c.changed) > 0 {
		s.Events = PathEvents
		tag, err := fragmentTag(f, v)
		if err != nil {
			return err
		}
		s.ETag = tag
		s.Triggers = "refresh"
		for _, list := range c.changed {
			s.Triggers += ", sse:" + list
		}
	}
	return templates.ExecuteTemplate(w, "shell", s)
}

// ETag is the entity tag of a fragment.
func ETag(fragment []byte) string {
	sum := sha256.Sum256(fragment)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// fragmentTag is the tag of the fragment that a whole page shows: the script asks for the next one
// with it.
func fragmentTag(f Frame, v View) (string, error) {
	f.Fragment = true
	var fragment bytes.Buffer
	err := Write(&fragment, f, v)
	return ETag(fragment.Bytes()), err
}

func navigation(f Frame, c content) []navLink {
	links := []navLink{{Path: PathOverview, Text: "Overview"}, {Path: PathInstances, Text: "Instances"}, {Path: PathNodes, Text: "Nodes"},
		{Path: PathOperations, Text: "Operations"}, {Path: PathVolumes, Text: "Volumes"}, {Path: PathRegistries, Text: "Registries"}, {Path: PathHistory, Text: "History"}}
	for i, l := range links {
		at := strings.TrimSuffix(f.URL.Path, "/")
		links[i].Present = c.section == l.Path || at == strings.TrimSuffix(l.Path, "/")
	}
	return links
}
