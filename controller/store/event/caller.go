package event

import "context"

// byController is who causes what no caller asked for.
const byController = "controller"

type callerKey struct{}

// Context is a context whose transactions are caused by a caller. who is asked when a
// transaction begins: the caller of a request is not known before it is authenticated.
func Context(ctx context.Context, who func() string) context.Context {
	return context.WithValue(ctx, callerKey{}, who)
}

// Caller is who causes what ctx does, "" for the controller itself.
func Caller(ctx context.Context) string {
	if who, ok := ctx.Value(callerKey{}).(func() string); ok {
		return who()
	}
	return ""
}
