package page

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// perPage is how many rows a list has on a page.
const perPage = 200

// pager is which rows of a list a page has, and where the others are.
type pager struct {
	// From and To are the numbers of the first and the last row, Of of all that fit the filter,
	// All of all there are.
	From, To, Of, All int
	// Filtered is whether the list has a filter.
	Filtered       bool
	Pages          []pageLink
	Previous, Next string
}

// pageLink is one page of a list; one without a path is the present one, or stands for those
// that are left out.
type pageLink struct {
	Number  int
	Path    string
	Present bool
}

// paged is the rows of the page that the query asks for, of those that fit the filter. A page that is
// not there is the last one.
func paged[T any](f Frame, form filter, items []T, all int) ([]T, pager) {
	pages := max(1, (len(items)+perPage-1)/perPage)
	number, err := strconv.Atoi(f.query().Get("page"))
	if err != nil {
		number = 1
	}
	number = min(max(number, 1), pages)
	from := (number - 1) * perPage
	to := min(from+perPage, len(items))
	p := pager{From: from + 1, To: to, Of: len(items), All: all, Filtered: form.Active > 0}
	if len(items) == 0 {
		p.From = 0
	}
	if pages > 1 {
		for n := 1; n <= pages; n++ {
			switch near := n == 1 || n == pages || n >= number-2 && n <= number+2; {
			case near:
				p.Pages = append(p.Pages, pageLink{Number: n, Path: f.page(n), Present: n == number})
			case len(p.Pages) > 0 && p.Pages[len(p.Pages)-1].Number != 0:
				p.Pages = append(p.Pages, pageLink{})
			}
		}
		if number > 1 {
			p.Previous = f.page(number - 1)
		}
		if number < pages {
			p.Next = f.page(number + 1)
		}
	}
	return items[from:to], p
}

// query is the query of the request.
func (f Frame) query() url.Values {
	if f.URL == nil {
		return nil
	}
	return f.URL.Query()
}

// page is the path of another page of the list.
func (f Frame) page(number int) string {
	query := f.query()
	query.Del("page")
	if number > 1 {
		query.Set("page", strconv.Itoa(number))
	}
	return withQuery(f.URL.EscapedPath(), query)
}

func withQuery(path string, query url.Values) string {
	for name, values := range query {
		if len(values) == 0 || values[0] == "" {
			query.Del(name)
		}
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// filter is the form above a list: a GET of the list itself.
type filter struct {
	Path     string
	Controls []control
	// Active is how many are in use, Clear the list without any.
	Active int
	Clear  string
}

// control is a field of a filter: a choice if it has options, else a text.
type control struct {
	Name, Label, Value, Hint string
	Options                  []option
}

// option is a value and what it is called.
type option struct {
	Value, Text string
	Chosen      bool
}

func newFilter(f Frame, path string, controls ...control) filter {
	form := filter{Path: path, Clear: path}
	query := f.query()
	for _, c := range controls {
		c.Value = query.Get(c.Name)
		if c.Value != "" {
			form.Active++
		}
		known := c.Value == ""
		for i, o := range c.Options {
			c.Options[i].Chosen = o.Value == c.Value
			known = known || o.Value == c.Value
		}
		if c.Options != nil && !known { // it filters: it is shown
			c.Options = append(c.Options, option{Value: c.Value, Text: c.Value, Chosen: true})
		}
		form.Controls = append(form.Controls, c)
	}
	return form
}

// choice is a control with any of the values.
func choice[T ~string](name, label string, values ...T) control {
	c := control{Name: name, Label: label, Options: []option{{Text: "any"}}}
	for _, v := range values {
		c.Options = append(c.Options, option{Value: string(v), Text: string(v)})
	}
	return c
}

// inWords gives its values these texts.
func (c control) inWords(words func(value string) string) control {
	for i, o := range c.Options {
		if o.Value != "" {
			c.Options[i].Text = words(o.Value)
		}
	}
	return c
}

// nameHint is what begins looks for.
const nameHint = "name or id prefix"

// textControl finds a text in the rows.
func textControl(hint string) control { return control{Name: "text", Label: "Text", Hint: hint} }

// fits reports whether a filter of the query is not in use or asks for the value.
func fits[T ~string](query url.Values, name string, value T) bool {
	wanted := query.Get(name)
	return wanted == "" || strings.EqualFold(wanted, string(value))
}

// contains reports whether the text that the query asks for is in one of these.
func contains(query url.Values, texts ...string) bool {
	wanted := strings.ToLower(strings.TrimSpace(query.Get("text")))
	if wanted == "" {
		return true
	}
	for _, text := range texts {
		if strings.Contains(strings.ToLower(text), wanted) {
			return true
		}
	}
	return false
}

// begins reports whether one of the texts, an id and a name, is what the query asks for, or begins
// with it.
func begins(query url.Values, name string, texts ...string) bool {
	wanted := strings.ToLower(strings.TrimSpace(query.Get(name)))
	return slices.ContainsFunc(texts, func(text string) bool { return strings.HasPrefix(strings.ToLower(text), wanted) })
}

// few is the first of a list, and how many are left out.
func few[T any](items []T, most int) (shown []T, rest int) {
	shown = items[:min(most, len(items))]
	return shown, len(items) - len(shown)
}
