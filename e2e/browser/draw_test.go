package browser

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// fewerColours is a picture with its 256 most frequent colours, which are all that a page has but
// the edges of letters: a third of the bytes.
func fewerColours(picture []byte) ([]byte, error) {
	decoded, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return nil, err
	}
	from := image.NewRGBA(decoded.Bounds())
	draw.Draw(from, from.Bounds(), decoded, decoded.Bounds().Min, draw.Src)
	counts := map[color.RGBA]int{}
	for i := 0; i < len(from.Pix); i += 4 {
		counts[color.RGBA{from.Pix[i], from.Pix[i+1], from.Pix[i+2], 255}]++
	}
	frequent := make([]color.RGBA, 0, len(counts))
	for c := range counts {
		frequent = append(frequent, c)
	}
	slices.SortFunc(frequent, func(a, b color.RGBA) int { return cmp.Compare(counts[b], counts[a]) })
	var palette color.Palette
	for _, c := range frequent[:min(256, len(frequent))] {
		palette = append(palette, c)
	}
	to, nearest := image.NewPaletted(from.Bounds(), palette), map[color.RGBA]uint8{}
	for i := range to.Pix {
		c := color.RGBA{from.Pix[4*i], from.Pix[4*i+1], from.Pix[4*i+2], 255}
		index, known := nearest[c]
		if !known {
			index = uint8(palette.Index(c))
			nearest[c] = index
		}
		to.Pix[i] = index
	}
	var out bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to)
	return out.Bytes(), err
}

var styled = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// fills are the colours of hitchctl's styles on a terminal.
var fills = map[string]string{"32": "#7fd3a0", "31;1": "#ff9d8c", "33": "#f0c368", "2": "#93a19f", "1": "#ffffff"}

// drawTerminal is what a terminal shows, as SVG: text, so that it is sharp and can be searched.
func drawTerminal(columns int, command, output string) string {
	const width, height, left, top = 8.43, 19.0, 18.0, 46.0
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(output, "\r", ""), "\n"), "\n")
	lines = append([]string{"\x1b[2m$ \x1b[0m" + command}, lines...)
	var b strings.Builder
	w, h := 2*left+width*float64(columns), top+height*float64(len(lines))
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="ui-monospace, 'SF Mono', 'Cascadia Mono', 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="14" role="img" aria-label="%s on a terminal">`+"\n", w, h, escaped(command))
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" rx="9" fill="#12181a"/><circle cx="20" cy="18" r="5" fill="#e8935a"/><circle cx="38" cy="18" r="5" fill="#f0c368"/><circle cx="56" cy="18" r="5" fill="#4fb0b5"/>`+"\n", w, h)
	for n, line := range lines {
		column, fill, rest := 0, "#e9e6dc", line
		for rest != "" {
			piece, after, next := rest, "", fill
			if at := styled.FindStringSubmatchIndex(rest); at != nil {
				piece, after = rest[:at[0]], rest[at[1]:]
				next = cmp.Or(fills[rest[at[2]:at[3]]], "#e9e6dc")
			}
			if strings.TrimSpace(piece) != "" {
				space := len(piece) - len(strings.TrimLeft(piece, " "))
				text := strings.TrimRight(piece[space:], " ")
				fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" fill="%s" textLength="%.1f" xml:space="preserve">%s</text>`+"\n",
					left+width*float64(column+space), top+height*float64(n), fill, width*float64(utf8.RuneCountInString(text)), escaped(text))
			}
			column += utf8.RuneCountInString(piece)
			fill, rest = next, after
		}
	}
	return b.String() + "</svg>\n"
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text))
	return b.String()
}
