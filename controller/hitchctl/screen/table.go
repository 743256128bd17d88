package screen

import (
	"slices"
	"strings"
)

// Column is one column of a table.
type Column struct {
	Title string
	// Flexible shrinks first if the table is too wide: its cells are cut, or
	// wrapped in a table that wraps.
	Flexible bool
	// Spare columns are left out if the table does not fit, the highest first;
	// 0 is never left out.
	Spare int
}

// Cell is one cell: text on one line, and its style.
type Cell struct {
	Text  string
	Style Style
}

// Text is a cell without a style.
func Text(text string) Cell { return Cell{Text: text} }

// Table is a table with a head.
type Table struct {
	Columns []Column
	Rows    [][]Cell
	// Wrap breaks flexible cells over several lines instead of cutting them.
	Wrap bool
	// Bare leaves out the head.
	Bare bool
}

// Add appends a row.
func (t *Table) Add(cells ...Cell) { t.Rows = append(t.Rows, cells) }

const (
	gap          = "  "
	leastFlex    = 16 // columns that a flexible cell keeps before others are left out
	leastVisible = 4  // columns that any cell keeps
)

// Lines is the table for a screen, no line wider than it. Texts are cleaned.
func (s *Screen) Lines(t Table) []string {
	columns, rows := t.prepared()
	limit := s.Width()
	columns, rows = leaveOut(columns, rows, limit)
	widths := fit(columns, rows, limit)
	var lines []string
	if !t.Bare {
		head := make([]Cell, len(columns))
		for i, c := range columns {
			head[i] = Cell{c.Title, Strong}
		}
		lines = append(lines, s.row(columns, head, widths, false)...)
	}
	for _, row := range rows {
		lines = append(lines, s.row(columns, row, widths, t.Wrap)...)
	}
	return lines
}

// prepared is the columns and rows with clean texts, each row complete.
func (t *Table) prepared() ([]Column, [][]Cell) {
	rows := make([][]Cell, len(t.Rows))
	for i, row := range t.Rows {
		rows[i] = make([]Cell, len(t.Columns))
		for j := range rows[i] {
			if j < len(row) {
				rows[i][j] = Cell{Clean(row[j].Text), row[j].Style}
			}
		}
	}
	return t.Columns, rows
}

// leaveOut removes spare columns until the table fits with its flexible columns
// at their least.
func leaveOut(columns []Column, rows [][]Cell, limit int) ([]Column, [][]Cell) {
	for limit > 0 && total(least(columns, natural(columns, rows))) > limit {
		drop := -1
		for i, c := range columns {
			if c.Spare > 0 && (drop < 0 || c.Spare >= columns[drop].Spare) {
				drop = i
			}
		}
		if drop < 0 {
			break
		}
		columns = slices.Delete(slices.Clone(columns), drop, drop+1)
		for i := range rows {
			rows[i] = slices.Delete(slices.Clone(rows[i]), drop, drop+1)
		}
	}
	return columns, rows
}

func natural(columns []Column, rows [][]Cell) []int {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = Width(c.Title)
		for _, row := range rows {
			widths[i] = max(widths[i], Width(row[i].Text))
		}
	}
	return widths
}

func least(columns []Column, widths []int) []int {
	widths = slices.Clone(widths)
	for i, c := range columns {
		if c.Flexible {
			widths[i] = min(widths[i], max(leastFlex, Width(c.Title)))
		}
	}
	return widths
}

func total(widths []int) int {
	n := len(gap) * max(0, len(widths)-1)
	for _, w := range widths {
		n += w
	}
	return n
}

// fit shrinks columns to the limit: flexible ones first, then the widest.
func fit(columns []Column, rows [][]Cell, limit int) []int {
	widths := natural(columns, rows)
	if limit <= 0 {
		return widths
	}
	floor := least(columns, widths)
	for total(widths) > limit {
		widest := -1
		for i := range widths {
			if widths[i] > floor[i] && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	for total(widths) > limit {
		widest := 0
		for i := range widths {
			if widths[i] > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= leastVisible {
			break
		}
		widths[widest]--
	}
	return widths
}

// row is one row, over several lines where cells are wrapped.
func (s *Screen) row(columns []Column, row []Cell, widths []int, wrap bool) []string {
	pieces, height := make([][]string, len(row)), 1
	for i, cell := range row {
		if wrap && columns[i].Flexible {
			pieces[i] = wrapWithin(cell.Text, widths[i])
		} else {
			pieces[i] = []string{s.Truncate(cell.Text, widths[i])}
		}
		height = max(height, len(pieces[i]))
	}
	lines := make([]string, height)
	for n := range lines {
		var b strings.Builder
		blank := 0
		for i, cell := range row {
			text := ""
			if n < len(pieces[i]) {
				text = pieces[i][n]
			}
			if text != "" {
				b.WriteString(strings.Repeat(" ", blank) + s.Paint(cell.Style, text))
				blank = 0
			}
			blank += max(0, widths[i]-Width(text)) + len(gap)
		}
		lines[n] = b.String()
	}
	return lines
}
