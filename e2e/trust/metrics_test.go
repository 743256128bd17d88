package trust

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
)

// scrape reads the controller's metrics: what is before the value, and the value.
func scrape(a *attempt, address string) map[string]float64 {
	a.Helper()
	request, err := http.NewRequestWithContext(a.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		a.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		a.Fatal(err)
	}
	defer response.Body.Close()
	all := map[string]float64{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			all[name] = n
		}
	}
	return all
}
