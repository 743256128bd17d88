package httpapi

import wire "github.com/nodehitch/nodehitch/shared/api"

// conditions are what If-Match and If-None-Match of a request that changes an instance ask
// of it (RFC 9110, section 13.1).
func conditions(match, none *string) (list []func(now *wire.Instance) error) {
	if match != nil {
		list = append(list, func(now *wire.Instance) error {
			etag, err := etagOfInstance(now)
			if err != nil || now != nil && matchesStrongly(*match, etag) {
				return err
			}
			return wire.NewProblem(wire.ProblemPrecondition, "If-Match does not name the instance as it is now: GET it, look at what has changed, and send the request again with its ETag")
		})
	}
	if none != nil {
		list = append(list, func(now *wire.Instance) error {
			etag, err := etagOfInstance(now)
			if err != nil || now == nil || !matches(*none, etag) {
				return err
			}
			return wire.NewProblem(wire.ProblemPrecondition, "the instance exists, and If-None-Match names it")
		})
	}
	return list
}

func etagOfInstance(now *wire.Instance) (string, error) {
	if now == nil {
		return "", nil
	}
	return etagOf(*now)
}
