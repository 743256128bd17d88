package query

import (
	"fmt"
	"strings"
)

// Column is a column of a table that the user has put together.
type Column struct {
	Title string
	path  *Path
}

// ParseColumns reads NAME:.name,READY:.ready as kubectl does.
func ParseColumns(text string) (columns []Column, err error) {
	for part := range strings.SplitSeq(text, ",") {
		title, expression, _ := strings.Cut(part, ":")
		if title == "" || expression == "" {
			return nil, fmt.Errorf("found the column %q; expected HEAD:JSONPATH, as in NAME:.name,READY:.ready", part)
		}
		path, err := ParsePath(expression)
		if err != nil {
			return nil, err
		}
		columns = append(columns, Column{title, path})
	}
	return columns, nil
}

// Of is what the column shows of an object, none for what it lacks.
func (c Column) Of(object any, none string) string {
	var text strings.Builder
	if err := c.path.Print(&text, object); err != nil || text.Len() == 0 {
		return none
	}
	return text.String()
}
