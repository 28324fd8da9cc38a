// Allocations of C++ whose type is known from where their result goes.
#include <memory>
#include <vector>

namespace work {

struct Queue {
	Queue() : head(0), tail(0) {}
	virtual ~Queue() {}
	long head;
	long tail;
};

struct Cell {
	long count;
	int state;
};

Queue *shared;
std::vector<Cell> cells;
Cell *packed;

void to_object()
{
	shared = new Queue;
}

void to_array(int n)
{
	packed = new Cell[n]();
}

}  // namespace work

int main(int argc, char **)
{
	work::to_object();
	work::to_array(argc);
	work::cells.resize(argc);
	return work::cells[0].count + work::shared->head + work::packed[0].count;
}
