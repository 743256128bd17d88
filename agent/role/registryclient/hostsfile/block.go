package hostsfile

import (
	"slices"
	"strings"
)

const (
	begin = "# BEGIN nodehitch"
	end   = "# END nodehitch"
	about = "# Kept by nodehitch-agent: what is changed between these two lines is put back."
	// unterminated is in a block that follows a line without a newline: that line gets one
	// with the block, and loses it when the block is removed.
	unterminated = "# The line before this block had no newline."
)

// file is the text of /etc/hosts, in lines with their ends.
type file struct {
	lines  []string
	blocks []span // complete blocks, in order
	strays []int  // marker lines without their counterpart
}

// span is a block from its first to its last line, both included.
type span struct{ first, last int }

func parse(content string) *file {
	f := &file{lines: strings.SplitAfter(content, "\n")}
	if last := len(f.lines) - 1; f.lines[last] == "" {
		f.lines = f.lines[:last]
	}
	open := -1
	stray := func() {
		if open >= 0 {
			f.strays = append(f.strays, open)
		}
	}
	for i := range f.lines {
		switch f.text(i) {
		case begin:
			stray()
			open = i
		case end:
			if open >= 0 {
				f.blocks = append(f.blocks, span{open, i})
			} else {
				f.strays = append(f.strays, i)
			}
			open = -1
		}
	}
	stray()
	return f
}

// text is a line without its newline and the white space around it.
func (f *file) text(i int) string { return strings.TrimSpace(f.lines[i]) }

// contains reports whether the file has exactly one complete block with these lines, or no
// block if there are no lines.
func (f *file) contains(wanted []string) bool {
	if len(f.strays) > 0 || len(f.blocks) > 1 || len(f.blocks) == 0 || len(wanted) == 0 {
		return len(f.strays)+len(f.blocks)+len(wanted) == 0
	}
	b := f.blocks[0]
	var within []string
	for i := b.first; i <= b.last; i++ {
		if f.text(i) != unterminated {
			within = append(within, f.text(i))
		}
	}
	return slices.Equal(within, slices.Concat([]string{begin, about}, wanted, []string{end}))
}

// with is the text with one block of these lines, or without a block if there are no lines.
func (f *file) with(wanted []string) string {
	ours := f.ours(wanted)
	at := len(f.lines)
	if len(f.blocks) > 0 {
		at = f.blocks[0].first
	}
	before, after := f.outside(ours, 0, at), f.outside(ours, at, len(f.lines))
	if after == "" && f.wasUnterminated() {
		before = strings.TrimSuffix(strings.TrimSuffix(before, "\n"), "\r")
	}
	if len(wanted) == 0 {
		return before + after
	}
	eol := f.eol()
	head := []string{begin, about}
	if before != "" && !strings.HasSuffix(before, "\n") {
		if !strings.HasSuffix(before, "\r") { // it would become a part of the newline
			head = append(head, unterminated)
		}
		before += eol
	}
	block := slices.Concat(head, wanted, []string{end})
	return before + strings.Join(block, eol) + eol + after
}

// ours are the lines that are certainly nodehitch's: those of complete blocks, lone markers,
// and the lines next to these that the new block repeats.
func (f *file) ours(wanted []string) map[int]bool {
	ours := map[int]bool{}
	for _, b := range f.blocks {
		for i := b.first; i <= b.last; i++ {
			ours[i] = true
		}
	}
	repeated := func(i int) bool {
		return i >= 0 && i < len(f.lines) && !ours[i] &&
			(f.text(i) == about || f.text(i) == unterminated || slices.Contains(wanted, f.text(i)))
	}
	for _, stray := range f.strays {
		ours[stray] = true
		step := 1
		if f.text(stray) == end {
			step = -1
		}
		for i := stray + step; repeated(i); i += step {
			ours[i] = true
		}
	}
	return ours
}

// outside are the lines from first to before limit that are not ours.
func (f *file) outside(ours map[int]bool, first, limit int) string {
	var kept strings.Builder
	for i := first; i < limit; i++ {
		if !ours[i] {
			kept.WriteString(f.lines[i])
		}
	}
	return kept.String()
}

// wasUnterminated reports whether the line before the first block had no newline.
func (f *file) wasUnterminated() bool {
	if len(f.blocks) == 0 {
		return false
	}
	for i := f.blocks[0].first; i < f.blocks[0].last; i++ {
		if f.text(i) == unterminated {
			return true
		}
	}
	return false
}

// eol is the newline of the file's first line.
func (f *file) eol() string {
	if len(f.lines) > 0 && strings.HasSuffix(f.lines[0], "\r\n") {
		return "\r\n"
	}
	return "\n"
}
