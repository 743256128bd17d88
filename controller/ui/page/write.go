package page

import "io"

type content struct{ title string }

func write(w io.Writer, f Frame, v View) error {
	_, err := io.WriteString(w, "<!doctype html><title>"+v.content(f).title+"</title>")
	return err
}

func (Overview) content(Frame) content   { return content{"overview"} }
func (Instances) content(Frame) content  { return content{"instances"} }
func (Instance) content(Frame) content   { return content{"instance"} }
func (Nodes) content(Frame) content      { return content{"nodes"} }
func (Node) content(Frame) content       { return content{"node"} }
func (Operations) content(Frame) content { return content{"operations"} }
func (Operation) content(Frame) content  { return content{"operation"} }
func (Volumes) content(Frame) content    { return content{"volumes"} }
func (Volume) content(Frame) content     { return content{"volume"} }
func (Registries) content(Frame) content { return content{"registries"} }
func (History) content(Frame) content    { return content{"history"} }
func (SignIn) content(Frame) content     { return content{"sign in"} }
func (Problem) content(Frame) content    { return content{"problem"} }
