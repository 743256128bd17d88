package screen

// Style is how a piece of text looks where colours are allowed.
type Style string

// The styles, by what they mean.
const (
	Normal  Style = ""
	Good    Style = "32"   // done, as desired
	Bad     Style = "31;1" // failed
	Waiting Style = "33"   // on its way, or not known
	Faint   Style = "2"    // beside the point
	Strong  Style = "1"    // headings
)

// Paint is text in a style, or just text if the screen has no colours.
func (s *Screen) Paint(style Style, text string) string {
	if !s.Color || style == Normal || text == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}

// Symbol is one of the two, by what the screen can show.
func (s *Screen) Symbol(unicode, ascii string) string {
	if s.Unicode {
		return unicode
	}
	return ascii
}
