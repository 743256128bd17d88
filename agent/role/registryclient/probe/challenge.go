package probe

import (
	"net/http"
	"strings"
)

// challenge is one way to log in that a server offers (RFC 7235 section 2.1).
type challenge struct {
	// scheme is in lower case, as are the names of the parameters.
	scheme     string
	parameters map[string]string
}

// challenges are the supported ones of all WWW-Authenticate headers: a token service first,
// as in Docker, then a password.
func challenges(h http.Header) []challenge {
	var bearer, basic []challenge
	for _, line := range h.Values("Www-Authenticate") {
		for _, c := range parseChallenges(line) {
			switch c.scheme {
			case "bearer":
				bearer = append(bearer, c)
			case "basic":
				basic = append(basic, c)
			}
		}
	}
	return append(bearer, basic...)
}

// parseChallenges reads one header, which may contain several challenges. It skips what it does
// not understand.
func parseChallenges(line string) []challenge {
	var found []challenge
	for rest := line; ; {
		rest = strings.TrimLeft(rest, " \t,")
		if rest == "" {
			return found
		}
		var word string
		word, rest = token(rest)
		after := strings.TrimLeft(rest, " \t")
		if value, isParameter := strings.CutPrefix(after, "="); isParameter && word != "" {
			var text string
			text, rest = parameterValue(strings.TrimLeft(value, " \t"))
			if len(found) > 0 {
				found[len(found)-1].parameters[strings.ToLower(word)] = text
			}
			continue
		}
		if word == "" {
			rest = rest[1:]
			continue
		}
		found = append(found, challenge{strings.ToLower(word), map[string]string{}})
	}
}

// token cuts an RFC 7230 token off the front.
func token(s string) (word, rest string) {
	end := strings.IndexFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
	if end < 0 {
		return s, ""
	}
	return s[:end], s[end:]
}

// parameterValue cuts a token or a quoted string off the front.
func parameterValue(s string) (value, rest string) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, ", \t")
		if end < 0 {
			return s, ""
		}
		return s[:end], s[end:]
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case s[i] == '"':
			return b.String(), s[i+1:]
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), ""
}
